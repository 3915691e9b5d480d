"""Makes calls to CUDA's driver and compiler fail, one in each trial: exit code 2, nothing that looks finished, and then the
same command ends with the same bits. Needs a GPU:

    python3 tests/campaign/gpu_faults.py target/release/hambo --seconds 60
"""

import sys

from faults import COMMANDS, Campaign, main


class OnGpu(Campaign):
    kinds = {"memory": {"cuMemAllocAsync", "cuMemAlloc_v2", "cuGraphInstantiateWithFlags", "cuModuleLoadData"}, "launch": None, "gone": None, "kill": None}
    commands = {
        name: line.replace("--threads 1", "--threads 1 --device cuda")
        for name, line in COMMANDS.items()
        if name in ("evaluate", "curves", "rank", "learn", "train", "sweep")
    }


if __name__ == "__main__":
    sys.exit(main(OnGpu, "gpu_faults.c"))
