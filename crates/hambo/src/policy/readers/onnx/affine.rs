//! Affine maps between layers, in f64, so that the result of many operators is rounded only once.

use crate::policy::readers::onnx::Stop;

/// y = W (scale ∘ x + offset) + b, or without W and b. The part on the inputs is kept apart: subtracting a large mean
/// in f32 after multiplying by W would lose digits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Affine {
    pub scale: Vec<f64>,
    pub offset: Vec<f64>,
    pub dense: Option<Dense>,
}

/// W `[outputs, inputs]` and b.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dense {
    pub weight: Vec<f64>,
    pub bias: Vec<f64>,
}

/// How much may still be stored and computed: a stranger's graph may ask for far more than its file holds.
pub(super) struct Budget {
    pub numbers: u64,
    pub products: u64,
}

impl Budget {
    fn spend(&mut self, numbers: usize, products: u64) -> Result<(), Stop> {
        match (self.numbers.checked_sub(numbers as u64), self.products.checked_sub(products)) {
            (Some(n), Some(p)) => {
                (self.numbers, self.products) = (n, p);
                Ok(())
            }
            _ => Err(Stop::Damaged(
                "its operations ask for far more than the file could hold".to_owned(),
            )),
        }
    }
}

impl Affine {
    pub fn identity(width: usize) -> Self {
        Affine { scale: vec![1.0; width], offset: vec![0.0; width], dense: None }
    }

    pub fn inputs(&self) -> usize {
        self.scale.len()
    }

    pub fn outputs(&self) -> usize {
        self.dense.as_ref().map_or(self.scale.len(), |d| d.bias.len())
    }

    /// A copy, which counts against the budget.
    pub fn copy(&self, budget: &mut Budget) -> Result<Self, Stop> {
        budget.spend(
            2 * self.inputs() + self.dense.as_ref().map_or(0, |d| d.weight.len() + d.bias.len()),
            0,
        )?;
        Ok(self.clone())
    }

    /// y ← factor ∘ y + term
    pub fn then_columns(mut self, factor: &[f64], term: &[f64]) -> Self {
        match &mut self.dense {
            Some(dense) => {
                let rows = dense.weight.chunks_exact_mut(self.scale.len().max(1));
                for (row, f) in rows.zip(factor) {
                    row.iter_mut().for_each(|w| *w *= f);
                }
                columns(&mut dense.bias, factor, term);
            }
            None => {
                self.scale.iter_mut().zip(factor).for_each(|(s, f)| *s *= f);
                columns(&mut self.offset, factor, term);
            }
        }
        self
    }

    /// y ← yᵀ `matrix`, which is `[outputs, columns]`.
    pub fn then_matrix(
        mut self,
        matrix: &[f64],
        columns: usize,
        budget: &mut Budget,
    ) -> Result<Self, Stop> {
        let (inputs, middle) = (self.inputs(), self.outputs());
        let size = inputs.saturating_mul(columns);
        budget.spend(size.saturating_add(columns), (size as u64).saturating_mul(middle as u64))?;
        let mut weight = vec![0.0; size];
        let mut bias = vec![0.0; columns];
        match &self.dense {
            None => {
                for (o, row) in weight.chunks_exact_mut(inputs.max(1)).enumerate() {
                    row.iter_mut().enumerate().for_each(|(i, w)| *w = matrix[i * columns + o]);
                }
            }
            Some(dense) => {
                for (o, row) in weight.chunks_exact_mut(inputs.max(1)).enumerate() {
                    for (m, old) in dense.weight.chunks_exact(inputs.max(1)).enumerate() {
                        let factor = matrix[m * columns + o];
                        row.iter_mut().zip(old).for_each(|(w, old)| *w += factor * old);
                    }
                }
                for (o, b) in bias.iter_mut().enumerate() {
                    *b = dense
                        .bias
                        .iter()
                        .enumerate()
                        .map(|(m, old)| matrix[m * columns + o] * old)
                        .sum();
                }
            }
        }
        self.dense = Some(Dense { weight, bias });
        Ok(self)
    }

    /// Some of the outputs, in this order.
    pub fn select(mut self, chosen: &[usize], budget: &mut Budget) -> Result<Self, Stop> {
        if chosen.iter().copied().eq(0..self.outputs()) {
            return Ok(self);
        }
        let inputs = self.inputs();
        let size = inputs.saturating_mul(chosen.len());
        budget.spend(size.saturating_add(chosen.len()), 0)?;
        let mut weight = Vec::with_capacity(size);
        let mut bias = Vec::with_capacity(chosen.len());
        for &o in chosen {
            match &self.dense {
                Some(dense) => {
                    weight.extend_from_slice(&dense.weight[o * inputs..][..inputs]);
                    bias.push(dense.bias[o]);
                }
                None => {
                    weight.extend((0..inputs).map(|i| f64::from(u8::from(i == o))));
                    bias.push(0.0);
                }
            }
        }
        self.dense = Some(Dense { weight, bias });
        Ok(self)
    }

    /// All outputs of the one, then all of the other.
    pub fn stack(&self, other: &Affine, budget: &mut Budget) -> Result<Self, Stop> {
        let (mut ours, theirs) = (self.folded(budget)?, other.folded(budget)?);
        ours.weight.extend(theirs.weight);
        ours.bias.extend(theirs.bias);
        Ok(Affine { dense: Some(ours), ..Affine::identity(self.inputs()) })
    }

    /// y ← y + sign · other(x)
    pub fn plus(&self, other: &Affine, sign: f64, budget: &mut Budget) -> Result<Self, Stop> {
        let (mut ours, theirs) = (self.folded(budget)?, other.folded(budget)?);
        ours.weight.iter_mut().zip(&theirs.weight).for_each(|(a, b)| *a += sign * b);
        ours.bias.iter_mut().zip(&theirs.bias).for_each(|(a, b)| *a += sign * b);
        Ok(Affine { dense: Some(ours), ..Affine::identity(self.inputs()) })
    }

    /// W and b alone.
    pub fn folded(&self, budget: &mut Budget) -> Result<Dense, Stop> {
        let inputs = self.inputs();
        let size = inputs.saturating_mul(self.outputs());
        budget.spend(size.saturating_add(self.outputs()), 0)?;
        let Some(dense) = &self.dense else {
            let mut weight = vec![0.0; size];
            self.scale.iter().enumerate().for_each(|(i, s)| weight[i * inputs + i] = *s);
            return Ok(Dense { weight, bias: self.offset.clone() });
        };
        let mut dense = dense.clone();
        for (row, bias) in dense.weight.chunks_exact_mut(inputs.max(1)).zip(&mut dense.bias) {
            *bias += row.iter().zip(&self.offset).map(|(w, o)| w * o).sum::<f64>();
            row.iter_mut().zip(&self.scale).for_each(|(w, s)| *w *= s);
        }
        Ok(dense)
    }
}

fn columns(values: &mut [f64], factor: &[f64], term: &[f64]) {
    values.iter_mut().zip(factor).zip(term).for_each(|((v, f), t)| *v = *v * f + t);
}
