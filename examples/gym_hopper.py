"""MuJoCo's Hopper, if MuJoCo is installed: pip install "gymnasium[mujoco]".

Two torques per joint make eight actions.

The state is MuJoCo's integration state, so a step from it repeats the real one
to the last bit. Run: python examples/gym_hopper.py
"""

import gymnasium

import smoothcruiser as sc
from smoothcruiser.adapters.gymnasium import problem


def main() -> None:
    hopper = problem(
        gymnasium.make("Hopper-v5"),
        discount=0.5,
        operator=sc.Entropy(2.0),
        actions=2,
        reward_range=(-3.0, 6.0),
    )
    schedule = sc.explain(hopper, epsilon="25%", delta=0.1)
    print(schedule)
    answer = sc.run(hopper, schedule)
    print(
        f"value {answer.value:.3f} in [{answer.interval[0]:.3f}, "
        f"{answer.interval[1]:.3f}], {answer.num_calls:,} calls"
    )


if __name__ == "__main__":
    main()
