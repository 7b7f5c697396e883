"""The engine at the speed of C."""
