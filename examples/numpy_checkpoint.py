"""Gradient descent in NumPy that continues from where it was stopped: three lines for checkpoints.

    PYTHONPATH=python LONGHAUL_LIBRARY=.../liblonghaul.so python3 examples/numpy_checkpoint.py FOLDER

Run it again with a higher --steps, and it continues from the newest checkpoint in FOLDER.
"""

import argparse

import numpy

import longhaul


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    random = numpy.random.default_rng(1)
    inputs, truth = random.normal(size=(64, 3)), numpy.array([1.0, -2.0, 0.5])
    state = {"weights": numpy.zeros(3), "velocity": numpy.zeros(3)}

    saved = longhaul.load_checkpoint(arguments.folder, into=state)
    first = saved.step + 1 if saved else 1
    for step in range(first, arguments.steps + 1):
        gradient = inputs.T @ (inputs @ (state["weights"] - truth)) / len(inputs)
        state["velocity"] = 0.9 * state["velocity"] - 0.1 * gradient
        state["weights"] = state["weights"] + state["velocity"]
        if step % 10 == 0:
            longhaul.save(arguments.folder, state, step)
    print(f"first step {first}, weights {state['weights'].tobytes().hex()}")


if __name__ == "__main__":
    main()
