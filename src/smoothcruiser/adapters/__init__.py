"""Other people's simulators as problems: Gymnasium environments, OpenSpiel games. Each adapter imports its library, and only there."""
