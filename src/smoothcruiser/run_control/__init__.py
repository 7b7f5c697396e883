"""Limits and stops of a run: what was requested, what counts, and what may end it.

control          Limits, StopReason, and ``Control.check(calls)``
call_ledger      CallLedger: every call of the step, by purpose, under the price
clock            the seconds that count, without compiling
stop_requests    Ctrl-C as a request that a run reads
signal_listener  the thread that ends the process at the second Ctrl-C
call_seconds     limits of single calls and of waits
"""
