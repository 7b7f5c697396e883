"""CartPole: continuous states, no tables.

A sharp schedule gives a promise, and an agent balances the pole in the real
environment.

The planner steps a private copy that is put into the state in question and
samples from the planner's own stream; the real environment is stepped by nobody
but you. Run: python examples/cartpole.py
"""

import gymnasium

import smoothcruiser as sc


def main() -> None:
    problem = sc.make("gym:CartPole-v1", discount=0.5, temperature=2.0)
    answer = sc.plan(problem, epsilon="5%", delta=0.1, budget=10**6)
    low, high = answer.interval
    print(
        f"value {answer.value:.3f} in [{low:.3f}, {high:.3f}], confidence "
        f"90%, {answer.num_calls:,} calls, {answer.seconds:.1f} s"
    )

    env = gymnasium.make("CartPole-v1")
    env.reset(seed=7)
    agent = sc.Agent(
        env, "uct", discount=0.97, operator=sc.Max(), budget=300, deterministic=True
    )
    steps, over = 0, False
    while not over and steps < 200:
        _, _, terminated, truncated, _ = env.step(agent.act())
        steps, over = steps + 1, terminated or truncated
    print(
        f"the agent balanced the pole for {steps} steps (stopped "
        f"at 200), {agent.problem.name}, 300 calls a decision"
    )


if __name__ == "__main__":
    main()
