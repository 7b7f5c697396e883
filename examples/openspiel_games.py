"""Games from OpenSpiel: tic-tac-toe solved and certified, two others played.

Connect four and pig (dice) are played against a random player.

Run: python examples/openspiel_games.py [episodes]
"""

import sys

import smoothcruiser as sc


def main(episodes: int) -> None:
    game = sc.make("openspiel:tic_tac_toe", discount=0.95, temperature=0.1)
    exact = sc.plan(game, method="exact")
    found = sc.plan(game, method="certified", epsilon=0.01, delta=0.1)
    print(
        f"tic-tac-toe: exact {exact.value:.6f}, certified [{found.interval[0]:.4f}, "
        f"{found.interval[1]:.4f}], {found.num_calls:,} calls"
    )
    assert found.interval[0] <= exact.value <= found.interval[1]
    for name in ("openspiel:connect_four", "openspiel:pig"):
        agent = sc.Agent(
            sc.make(name, discount=0.99, operator="max"), "uct", budget=1000
        )
        print(sc.play(agent, episodes=episodes))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
