"use strict";
// Draws the plots. Everything that is text is already in the page, which can be read without this script.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  if (data.kind !== "evaluation") return;
  const { result, why, curves } = data;
  const trace = why && why.trace;
  const root = document.documentElement;
  const narrow = () => window.innerWidth < 700;
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const faded = (name, share) => {
    const hex = colour(name).replace("#", "");
    const [r, g, b] = hex.length === 3
      ? [...hex].map((c) => parseInt(c + c, 16))
      : [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${r}, ${g}, ${b}, ${share})`;
  };
  const hue = (i) => (i < 6 ? colour(`entry${i}`) : `hsl(${(i * 47) % 360} 45% 50%)`);
  // As many digits as the text has, so that the same number reads the same everywhere.
  const number = (x) => {
    if (x === null || x === undefined) return "";
    const size = Math.abs(x);
    if (size >= 1e7) return x.toExponential(3);
    return size >= 1000 ? x.toFixed(1) : size >= 1 || x === 0 ? x.toFixed(2) : String(+x.toPrecision(3));
  };
  const percent = (x) => (x === null || x === undefined ? "" : `${+(100 * x).toPrecision(3)} %`);
  const count = (x) => (x === null || x === undefined ? "" : String(x));
  const stateName = (d) => (result.names.state[d] !== undefined ? result.names.state[d] : "learned reward");
  const finite = (values) => values.filter((x) => x !== null && x !== undefined && Number.isFinite(x));

  const shown = { neutral: true, hallucinated: true, samples: true, sets: true };
  let chosen = null; // the one trajectory that is shown alone
  let plots = [];

  const axis = (label, more = {}) => ({
    label, labelSize: 24, labelFont: "13px system-ui, sans-serif", font: "12px system-ui, sans-serif", stroke: colour("quiet"),
    grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1, size: 5 }, ...more,
  });
  // Room for the longest number along the axis.
  const fitted = (u, values, index, cycle) => {
    const a = u.axes[index];
    if (cycle > 1) return a._size;
    const longest = (values || []).reduce((most, text) => (text.length > most.length ? text : most), "");
    if (!longest) return 40;
    u.ctx.font = a.font[0];
    return Math.ceil(u.ctx.measureText(longest).width / devicePixelRatio) + 16;
  };
  const plain = (u, values) => {
    const step = values.length > 1 ? Math.abs(values[1] - values[0]) : 1;
    const digits = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)));
    return values.map((x) => (Math.abs(x) >= 1e6 ? x.toExponential(1) : (Math.abs(x) < step / 1e6 ? 0 : x).toFixed(digits)));
  };
  const vertical = (label, more = {}) => axis(label, { size: fitted, values: plain, ...more });
  const horizontal = (label, more = {}) => axis(label, { size: 36, values: plain, ...more });
  // Room on both sides also where all values are the same, or there is one alone.
  const padded = (u, low, high) => {
    if (low === null || !Number.isFinite(low)) return [0, 1];
    const margin = 0.06 * (high - low || Math.abs(high) || 1);
    return [low - margin, high + margin];
  };
  const tight = (u, low, high) => (low === high ? [low - 0.5, high + 0.5] : [low, high]);
  const fromNothing = (u, low, high) => {
    if (low === null || !Number.isFinite(low)) return [0, 1];
    const margin = 0.06 * (Math.max(high, 0) - Math.min(low, 0) || 1);
    return [low < 0 ? low - margin : 0, high > 0 ? high + margin : 0];
  };

  const place = (box, height, options, values) => {
    box.textContent = "";
    const width = Math.max(240, box.clientWidth);
    const plot = new uPlot({
      width, height, padding: [10, 14, 0, 0], legend: { show: options.series.length > 1, live: options.mode !== 2 },
      cursor: { drag: { x: false, y: false }, points: { size: 7 } }, ...options,
      hooks: { ...options.hooks, draw: [...((options.hooks || {}).draw || []), () => box.setAttribute("data-drawn", "true")] },
    }, values, box);
    plots.push({ plot, box, height });
    return plot;
  };

  // A line across the plot with its name, at a value along x or y.
  const marker = (value, name, stroke, along = "x", dash = []) => (u) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return;
    const { ctx, bbox } = u;
    const at = Math.round(u.valToPos(value, along, true));
    const from = along === "x" ? bbox.left : bbox.top, size = along === "x" ? bbox.width : bbox.height;
    if (at < from || at > from + size) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = stroke;
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash(dash.map((d) => d * devicePixelRatio));
    ctx.beginPath();
    if (along === "x") { ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); }
    else { ctx.moveTo(bbox.left, at); ctx.lineTo(bbox.left + bbox.width, at); }
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    const gap = 5 * devicePixelRatio;
    if (along === "x") {
      const right = at > bbox.left + bbox.width / 2;
      ctx.textAlign = right ? "right" : "left";
      ctx.fillText(name, at + (right ? -gap : gap), bbox.top + gap);
    } else {
      ctx.textAlign = "right";
      ctx.textBaseline = at > bbox.top + 20 * devicePixelRatio ? "bottom" : "top";
      ctx.fillText(name, bbox.left + bbox.width - gap, at + (ctx.textBaseline === "bottom" ? -gap / 2 : gap / 2));
    }
    ctx.restore();
  };

  const samplesOf = (kind) => {
    const samples = trace[kind].samples;
    if (chosen !== null) return samples.slice(chosen, chosen + 1);
    return shown.samples ? samples : [];
  };
  const syncSteps = { sync: { key: "steps", setSeries: false }, drag: { x: false, y: false } };
  const stepLine = (label, stroke, more = {}) => ({
    label, stroke, width: 2, points: { show: false }, value: (u, x) => number(x), ...more,
  });
  const lonely = (xs) => (xs.length < 2 ? { points: { show: true, size: 8 } } : {});

  const draw = {
    plane(box) {
      const { plane, dimensions } = trace;
      const [rangeX, rangeY] = plane.range;
      const background = document.createElement("canvas");
      if (plane.rewards.length) {
        const known = finite(plane.rewards);
        const [low, high] = [Math.min(...known), Math.max(...known)];
        background.width = background.height = plane.side;
        const context = background.getContext("2d");
        const image = context.createImageData(plane.side, plane.side);
        const dark = parseInt(colour("ink").slice(1, 3), 16) > 128, most = 90;
        plane.rewards.forEach((reward, i) => {
          const row = plane.side - 1 - Math.floor(i / plane.side), at = 4 * (row * plane.side + (i % plane.side));
          const share = high > low && reward !== null ? (high - reward) / (high - low) : 0;
          image.data.set(dark ? [200, 120, 120, most * share] : [120, 40, 40, most * share], at);
        });
        context.putImageData(image, 0, 0);
      }
      const path = (u, points, stroke, width) => {
        const { ctx } = u;
        ctx.strokeStyle = stroke;
        ctx.lineWidth = width * devicePixelRatio;
        ctx.lineJoin = "round";
        ctx.beginPath();
        points.forEach(([x, y], i) => ctx[i ? "lineTo" : "moveTo"](u.valToPos(x, "x", true), u.valToPos(y, "y", true)));
        ctx.stroke();
      };
      const dots = (u, points, fill, radius) => {
        const { ctx } = u;
        ctx.fillStyle = fill;
        points.forEach(([x, y]) => {
          ctx.beginPath();
          ctx.arc(u.valToPos(x, "x", true), u.valToPos(y, "y", true), radius * devicePixelRatio, 0, 7);
          ctx.fill();
        });
      };
      const paint = (u) => {
        const { ctx, bbox } = u;
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
        ctx.clip();
        if (plane.rewards.length) {
          const [left, right] = rangeX.map((x) => u.valToPos(x, "x", true));
          const [bottom, top] = rangeY.map((y) => u.valToPos(y, "y", true));
          ctx.drawImage(background, left, top, right - left, bottom - top);
        }
        dots(u, plane.logged, faded("logged", 0.55), 1.6);
        const few = chosen === null ? 3 : 1;
        if (shown.sets && shown.hallucinated) {
          ctx.strokeStyle = faded("adversary", 0.55);
          ctx.fillStyle = faded("adversary", 0.1);
          ctx.lineWidth = devicePixelRatio;
          samplesOf("hallucinated").slice(0, few).forEach((sample) => sample.reach.forEach(([a, b], i) => {
            const [x, y] = sample.middle[i];
            const left = u.valToPos(x - a, "x", true), top = u.valToPos(y + b, "y", true);
            const box = [left, top, u.valToPos(x + a, "x", true) - left, u.valToPos(y - b, "y", true) - top];
            ctx.fillRect(...box);
            ctx.strokeRect(...box);
          }));
        }
        const strong = chosen === null ? 1.2 : 2.5, share = chosen === null ? 0.6 : 1;
        // Broad and pale below, thin above: both can be seen where they are the same.
        for (const [kind, name, breadth, paleness] of [["neutral", "neutral", 7, 0.4], ["hallucinated", "adversary", 2, 1]]) {
          if (!shown[kind]) continue;
          samplesOf(kind).forEach((sample) => path(u, sample.states, faded(name, share), strong));
          if (chosen === null) {
            path(u, trace[kind].bands.filter((b) => b[0].length).map((b) => [b[0][2], b[1][2]]), faded(name, paleness), breadth);
          } else {
            samplesOf(kind).forEach((sample) => dots(u, sample.states, colour(name), 3));
          }
        }
        ctx.restore();
      };
      // One unit is as long in both directions, so that a circle is one.
      const width = Math.max(240, box.clientWidth) - 80;
      const ratio = (rangeY[1] - rangeY[0]) / (rangeX[1] - rangeX[0]);
      const height = Math.round(Math.max(120, Math.min(560, width * ratio))) + 70;
      const scale = (own, size) => {
        const [inner, outer] = [width, height - 70];
        const unit = Math.max((rangeX[1] - rangeX[0]) / inner, (rangeY[1] - rangeY[0]) / outer);
        const middle = (own[0] + own[1]) / 2, half = (unit * size(inner, outer)) / 2;
        return [middle - half, middle + half];
      };
      const hint = document.createElement("div");
      const label = (place) => stateName(dimensions[place]);
      const plot = place(box, height, {
        legend: { show: false },
        scales: {
          // What the reader has marked, or everything.
          x: { time: false, range: (u, low, high) => (low === rangeX[0] && high === rangeX[1] ? scale(rangeX, (w) => w) : [low, high]) },
          y: { range: (u, low, high) => (low === rangeY[0] && high === rangeY[1] ? scale(rangeY, (w, h) => h) : [low, high]) },
        },
        axes: [horizontal(label(0)), vertical(label(1))],
        series: [{}, { paths: () => null, points: { show: false } }],
        cursor: { drag: { x: true, y: true, uni: 10 }, points: { show: false }, x: false, y: false },
        hooks: { draw: [paint] },
      }, [rangeX, rangeY]);
      hint.className = "hint";
      plot.over.appendChild(hint);
      // The nearest state of all that are drawn.
      plot.over.addEventListener("mousemove", (event) => {
        const box = plot.over.getBoundingClientRect();
        const [mx, my] = [event.clientX - box.left, event.clientY - box.top];
        let best = null, nearest = 15;
        for (const kind of ["neutral", "hallucinated"]) {
          if (!shown[kind]) continue;
          samplesOf(kind).forEach((sample) => sample.states.forEach(([x, y], i) => {
            const distance = Math.hypot(plot.valToPos(x, "x") - mx, plot.valToPos(y, "y") - my);
            if (distance < nearest) [nearest, best] = [distance, { kind, sample, x, y, t: trace.times[i] }];
          }));
        }
        hint.style.display = best ? "block" : "none";
        if (!best) return;
        const who = best.kind === "neutral" ? "without adversary" : "with adversary";
        hint.textContent = `step ${best.t}: (${number(best.x)}, ${number(best.y)}), ${who}, return ${number(best.sample.value)}`;
        hint.style.left = `${Math.max(0, Math.min(mx + 12, box.width - hint.offsetWidth))}px`;
        hint.style.top = `${my + 14}px`;
      });
      plot.over.addEventListener("mouseleave", () => { hint.style.display = "none"; });
    },

    band(box, index) {
      const times = trace.times;
      const values = [times], lines = [{ label: "step", value: (u, x) => count(x) }], bands = [];
      const add = (label, list, options) => {
        values.push(times.map((_, i) => (list[i] === undefined ? null : list[i])));
        lines.push({ label, points: { show: false }, value: (u, x) => number(x), ...options });
        return values.length - 1;
      };
      for (const [kind, name, words] of [["neutral", "neutral", "without"], ["hallucinated", "adversary", "with adversary"]]) {
        if (!shown[kind]) continue;
        const at = (quantile) => trace[kind].bands.map((b) => (b[index].length ? b[index][quantile] : null));
        const quiet = { stroke: "transparent", width: 0 };
        if (chosen === null) {
          const high = add(`${words}, 95 %`, at(4), quiet), low = add(`${words}, 5 %`, at(0), quiet);
          bands.push({ series: [high, low], fill: faded(name, 0.22) });
        }
        samplesOf(kind).forEach((sample) => add(`${words}, one`, sample.states.map((s) => s[index]),
          { stroke: chosen === null ? faded(name, 0.25) : colour(name), width: chosen === null ? 1 : 2 }));
        if (chosen === null) add(`${words}, median`, at(2), { stroke: colour(name), width: 2.5, ...lonely(times) });
        if (shown.sets && kind === "hallucinated" && samplesOf(kind).length && samplesOf(kind)[0].reach.length) {
          // The set around what is expected of the next state, drawn where that state is.
          const sample = samplesOf(kind)[0];
          const edge = (sign) => [null, ...sample.middle.map((m, i) => m[index] + sign * sample.reach[i][index])];
          const high = add("set", edge(1), quiet), low = add("set", edge(-1), quiet);
          bands.push({ series: [high, low], fill: faded("threshold", 0.25) });
        }
      }
      const range = trace.logged_range[index];
      const draws = range ? [marker(range[0], "logged from", colour("logged"), "y", [4, 4]), marker(range[1], "logged to", colour("logged"), "y", [4, 4])] : [];
      place(box, 240, {
        legend: { show: false }, cursor: syncSteps,
        scales: { x: { time: false, range: tight }, y: { range: padded } },
        axes: [horizontal("step t"), vertical(stateName(trace.dimensions[index]))],
        series: lines, bands, hooks: { draw: draws },
      }, values);
    },

    spans(box) {
      // Bars as wide as their steps, between the edges of the spans.
      const { spans, times, pushes } = trace;
      const steps = times.slice(0, pushes.length);
      const losses = steps.map((t) => { const s = spans.find((s) => t >= s.from && t < s.to); return s ? s.loss : null; });
      const perStep = spans.length === times.length - 1;
      const bars = (u) => {
        const { ctx } = u;
        ctx.save();
        ctx.fillStyle = faded("adversary", 0.55);
        const zero = u.valToPos(0, "y", true);
        spans.forEach((s) => {
          if (s.loss === null) return;
          const left = u.valToPos(s.from, "x", true), right = u.valToPos(s.to, "x", true), y = u.valToPos(s.loss, "y", true);
          ctx.fillRect(left + 0.5, Math.min(zero, y), Math.max(1, right - left - 1), Math.max(1, Math.abs(zero - y)));
        });
        ctx.restore();
      };
      const missed = pushes.map((p) => (p.reward_change === null ? null : -p.reward_change));
      place(box, 260, {
        cursor: syncSteps,
        scales: { x: { time: false, range: () => [0, spans[spans.length - 1].to] }, y: { range: fromNothing } },
        axes: [horizontal("step t"), vertical("return lost")],
        series: [{ label: "step", value: (u, x) => count(x) },
          { label: perStep ? "lost by the push in this step" : "lost by pushes in these steps", stroke: colour("adversary"), fill: faded("adversary", 0.55), paths: () => null, points: { show: false }, value: (u, x) => number(x) },
          { ...stepLine("reward missed in this step", colour("ink")), width: 1.5, ...lonely(steps) }],
        hooks: { drawAxes: [bars] },
      }, [steps, losses, missed]);
    },

    effort(box) { lines(box, "effort |η|", trace.pushes.map((p) => p.effort), () => [0, 1.05]); },
    members(box) {
      const shares = trace.pushes.map((p) => p.members);
      const steps = trace.times.slice(0, shares.length);
      const names = shares[0].map((_, i) => `particle ${i + 1}`);
      several(box, "share of trajectories", steps, names, names.map((_, i) => shares.map((s) => s[i])), () => [0, 1]);
    },
    uncertainty(box) {
      const usual = trace.usual_uncertainty;
      lines(box, "σₑ ÷ usual", trace.pushes.map((p) => p.uncertainty.map((x, i) => (usual[i] > 0 ? x / usual[i] : null))), fromNothing);
    },

    distributions(box) {
      const { edges, methods } = why.distributions;
      const bound = result.lower_bound;
      const truth = result.truth ? result.truth.value : null;
      // The threshold is in the picture, unless it would squeeze all else.
      const threshold = result.threshold, ends = [edges[0], edges[edges.length - 1]], span = ends[1] - ends[0];
      const asked = Number.isFinite(threshold) && Math.abs(threshold - (ends[0] + ends[1]) / 2) < 1.5 * span ? [threshold - 0.02 * span, threshold + 0.02 * span] : ends;
      const wide = [Math.min(ends[0], asked[0]), Math.max(ends[1], asked[1])];
      const hues = { ca: colour("adversary"), da1: colour("entry0"), dainf: colour("bad"), ds: colour("neutral"), ts1: colour("entry1"), tsinf: colour("entry2"), mean: colour("quiet") };
      // A method without luck is one bar of 100 %; the others are to be seen beside it.
      const tops = methods.map((m) => Math.max(...m.shares)), broad = tops.filter((top) => top < 0.5);
      const highest = 1.12 * Math.max(...(broad.length ? broad : tops), 1e-9);
      place(box, narrow() ? 260 : 320, {
        scales: { x: { time: false, range: () => wide }, y: { range: () => [0, highest] } },
        axes: [horizontal("return of one trajectory"), vertical("share", { values: (u, v) => v.map((x) => `${+(100 * x).toPrecision(3)} %`) })],
        series: [{ label: "return", value: (u, x) => number(x) }, ...methods.map((m) => ({
          label: m.method, stroke: hues[m.method], width: 2, points: { show: false }, value: (u, x) => percent(x),
          paths: uPlot.paths.stepped({ align: 1 }), fill: hues[m.method] + "0c",
        }))],
        hooks: { draw: [marker(bound, "bound", colour("adversary"), "x"), marker(truth, "truth", colour("truth"), "x", [6, 4]), marker(threshold, "threshold", colour("threshold"), "x", [3, 3])] },
      }, [edges, ...methods.map((m) => [...m.shares, m.shares[m.shares.length - 1]])]);
    },

    reliability(box) {
      const { levels, before, after, check } = why.reliability;
      const mean = (all) => levels.map((_, i) => all.reduce((sum, d) => sum + d[i], 0) / all.length);
      place(box, 300, {
        scales: { x: { time: false, range: () => [0, 1] }, y: { range: () => [0, 1] } },
        axes: [horizontal("predicted share"), vertical("measured share")],
        series: [{ label: "predicted", value: (u, x) => percent(x) },
          { ...stepLine("perfect", colour("logged"), { dash: [4, 4], width: 1 }) },
          { ...stepLine("before τ", colour("quiet")), value: (u, x) => percent(x) },
          { ...stepLine("after τ", colour("adversary")), value: (u, x) => percent(x) },
          { ...stepLine("after τ, other rows", colour("neutral"), { dash: [6, 3] }), value: (u, x) => percent(x) }],
      }, [levels, levels, mean(before), mean(after), mean(check)]);
    },

    coverage(box) {
      const { betas, coverage } = why.reliability;
      const beta = result.confidence_set ? result.confidence_set.beta : null;
      place(box, 300, {
        scales: { x: { time: false, range: () => [0, Math.max(betas[betas.length - 1], beta ? 1.05 * beta : 0)] }, y: { range: () => [0, 1] } },
        axes: [horizontal("size of the set, β"), vertical("share of steps inside")],
        series: [{ label: "β", value: (u, x) => number(x) }, { ...stepLine("inside", colour("neutral")), value: (u, x) => percent(x) }],
        hooks: { draw: [marker(beta, beta === null ? "" : `β = ${number(beta)}`, colour("adversary"), "x")] },
      }, [betas, coverage]);
    },

    outside(box) {
      const { steps, outside } = result.support;
      place(box, 240, {
        scales: { x: { time: false, range: tight }, y: { range: () => [0, 1] } },
        axes: [horizontal("step t"), vertical("share outside")],
        series: [{ label: "step", value: (u, x) => count(x) }, { ...stepLine("outside", colour("adversary"), { fill: faded("adversary", 0.15), ...lonely(steps) }), value: (u, x) => percent(x) }],
      }, [steps, outside]);
    },

    support(box) {
      const { steps, distance, uncertainty } = result.support;
      const dims = trace ? trace.dimensions : uncertainty[0].map((_, i) => i);
      const names = ["distance", ...dims.map((d) => `σₑ of ${stateName(d)}`)];
      several(box, "multiple of usual", steps, names, [distance, ...dims.map((d) => uncertainty.map((u) => u[d]))], fromNothing);
    },

    search(box, index) {
      const search = index ? result.adversary_da1 : result.adversary;
      const xs = search.curve.map((_, i) => i);
      place(box, 240, {
        scales: { x: { time: false, range: tight }, y: { range: padded } },
        axes: [horizontal("measurement"), vertical("lowest return")],
        series: [{ label: "measurement", value: (u, x) => count(x) }, { ...stepLine("lowest so far", colour("adversary"), { points: { show: true, size: 5 } }) }],
        hooks: { draw: [marker(search.neutral, "without adversary", colour("neutral"), "y", [5, 4])] },
      }, [xs, search.curve]);
    },

    curve(box, index) {
      const [name, label] = [["horizon", "horizon, steps"], ["beta", "size of the set, β"], ["data", "logged transitions"]][index];
      const points = curves[name];
      const xs = points.map((p) => p.at);
      const dots = { points: { show: true, size: 7 } };
      const lines = [{ label, value: (u, x) => number(x) }, stepLine("lower bound", colour("adversary"), dots), stepLine("estimate without adversary", colour("neutral"), dots)];
      const truth = index === 0 ? null : result.truth && result.truth.value;
      place(box, 260, {
        scales: { x: { time: false, range: padded }, y: { range: padded } },
        axes: [horizontal(label), vertical("return")], series: lines,
        hooks: { draw: [marker(truth, "truth", colour("truth"), "y", [6, 4]), marker(result.threshold, "threshold", colour("threshold"), "y", [3, 3])] },
      }, [xs, points.map((p) => p.lower_bound), points.map((p) => p.neutral)]);
    },
  };

  // One line for each entry of the state that is shown.
  function lines(box, label, rows, range) {
    const steps = trace.times.slice(0, rows.length);
    const names = trace.dimensions.map(stateName);
    several(box, label, steps, names, names.map((_, i) => rows.map((row) => (row[i] === undefined ? null : row[i]))), range);
  }
  function several(box, label, steps, names, columns, range) {
    place(box, 240, {
      cursor: syncSteps, legend: { show: names.length <= 8 },
      scales: { x: { time: false, range: tight }, y: { range } }, axes: [horizontal("step t"), vertical(label)],
      series: [{ label: "step", value: (u, x) => count(x) }, ...names.map((name, i) => stepLine(name, hue(i), lonely(steps)))],
    }, [steps, ...columns]);
  }

  const visible = (box) => !box.closest("details:not([open])");
  const drawAll = (only, within = document) => {
    for (const box of within.querySelectorAll(".plot")) {
      if (!visible(box) || (only && !only.includes(box.dataset.plot))) continue;
      plots = plots.filter((p) => p.box !== box || (p.plot.destroy(), false));
      draw[box.dataset.plot](box, +box.dataset.index);
    }
  };
  drawAll();

  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.addEventListener("click", () => {
      const name = button.dataset.toggle;
      shown[name] = !shown[name];
      button.setAttribute("aria-pressed", shown[name]);
      drawAll(["plane", "band"]);
    });
  }
  const rows = [...document.querySelectorAll("[data-trajectory]")];
  const choose = (row) => {
    const index = +row.dataset.trajectory;
    chosen = chosen === index ? null : index;
    rows.forEach((r) => r.classList.toggle("chosen", +r.dataset.trajectory === chosen));
    drawAll(["plane", "band"]);
  };
  rows.forEach((row) => {
    row.addEventListener("click", () => choose(row));
    row.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); choose(row); } });
  });
  document.querySelectorAll("details").forEach((d) => d.addEventListener("toggle", () => { if (d.open) drawAll(null, d); }));
  // A link to what is folded away opens it.
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const around = target && target.closest("details:not([open])");
    if (around) { around.open = true; target.scrollIntoView(); }
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  let width = window.innerWidth, waiting = null;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => drawAll(), 100);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
  // Paper is light, and shows what is folded away on a screen.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    root.classList.add("paper");
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((d) => { d.open = true; });
    drawAll();
  });
  window.addEventListener("afterprint", () => {
    root.classList.remove("paper");
    folded.forEach((d) => { d.open = false; });
    drawAll();
  });
})();
