"""Makes calls to CUDA's driver and compiler fail, one in each trial: exit code 2, nothing that looks finished, and then the
same command ends with the same bits:

    python3 tests/campaign/gpu_faults.py target/release/hambo --seconds 60

Where there is no GPU, a driver takes its place whose kernels do nothing (gpu_stub.c); all else is as it is with one.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from faults import COMMANDS, Campaign, main

ALLOCATES = {"cuMemAllocAsync", "cuMemAlloc_v2", "cuGraphInstantiateWithFlags", "cuModuleLoadData", "nvrtcCompileProgram"}


class OnGpu(Campaign):
    kinds = {"memory": ALLOCATES, "launch": None, "gone": None, "kill": None}
    commands = {
        name: line.replace("--threads 1", "--threads 1 --device cuda")
        for name, line in COMMANDS.items()
        if name in ("evaluate", "curves", "rank", "learn", "train", "sweep")
    }

    def __init__(self, hambo, library):
        super().__init__(hambo, library)
        if shutil.which("nvidia-smi") is None:
            print("no GPU here: kernels do nothing")
            driver = Path(library).with_name("libcuda.so.1")
            source = Path(__file__).with_name("gpu_stub.c")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", driver, source], check=True)
            self.environment = {"LD_LIBRARY_PATH": str(driver.parent), "HAMBO_NVRTC": str(driver)}


if __name__ == "__main__":
    sys.exit(main(OnGpu, "gpu_faults.c"))
