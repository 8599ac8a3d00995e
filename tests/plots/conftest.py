"""The modules under test lie in plots/, whose scripts find each other there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plots"))
