"""The trainings are in this folder, the sketches in client/look."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "client" / "look")]
