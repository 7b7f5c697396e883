"""FrozenLake through its tables: exact value, certified interval, and an agent.

Run: python examples/gym_frozen_lake.py
"""

import smoothcruiser as sc


def main() -> None:
    problem = sc.make(
        "gym:FrozenLake-v1,map_name=8x8", discount=0.95, temperature=0.01
    )
    exact = sc.plan(problem, method="exact")
    found = sc.plan(problem, method="certified", epsilon=0.05, delta=0.1, seed=1)
    print(f"exact value       {exact.value:.6f}")
    print(
        f"certified         [{found.interval[0]:.4f}, {found.interval[1]:.4f}] "
        f"after {found.num_calls:,} calls, {found.seconds:.2f} s"
    )
    assert found.interval[0] <= exact.value <= found.interval[1]
    print(sc.play(sc.Agent(problem), episodes=100))


if __name__ == "__main__":
    main()
