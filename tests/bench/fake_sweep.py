"""`bench sweep` as a process of its own, with the fake worker in place of the real one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import sweep

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    sweep.add_arguments(parser)
    worker = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))
    sys.exit(sweep.run(parser.parse_args(), worker))
