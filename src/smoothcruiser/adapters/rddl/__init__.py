"""The adapter of RDDL domains: planning problems of pyRDDLGym and rddlrepository.

``problem(domain, instance, …)`` and ``make("rddl:SysAdmin_MDP_ippc2011,1", …)`` return
problems.

  access        a problem by name, and the facts derived of an instance
  repository    which files a name stands for
  reading       an instance as pyRDDLGym reads it
  fluents       the parts of states and actions
  actions       all joint actions, and their names
  grounding     an instance as expressions (``expressions``, ``expressions``)
  code          expressions as Python functions
  intervals     where rewards lie
  laws          the exact law of a step
  machines      the program that runs an instance: the translation, or pyRDDLGym's
                interpreter
  oracles       the step of a problem

Only ``reading`` imports pyRDDLGym, and only ``reading`` imports rddlrepository. They
are loaded when a problem is first built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothcruiser.problem.adapter_protocol import LateAdapter, late_problem, register

if TYPE_CHECKING:
    from smoothcruiser.adapters.rddl.domains import problem

__all__ = ["problem"]


class RDDLAdapter(LateAdapter):
    """Instances of RDDL domains by their names, or by their files."""

    module = "domains"
    name = "rddl"
    summary = "an instance of an RDDL domain"
    example = "SysAdmin_MDP_ippc2011,1"
    needs = "smoothcruiser[rddl]"
    positional = ("instance",)  # may follow the name without a word
    modules = ("pyRDDLGym", "rddlrepository")
    has_discount = True  # instances have one of their own
    default_operator = "max"  # the competitions maximize


__getattr__ = late_problem(register(RDDLAdapter()))
