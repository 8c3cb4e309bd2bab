"""Equations of docstrings as LaTeX."""

from __future__ import annotations

import pytest

from scripts.formulas import latex, typeset


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dx = -theta (x - mu) dt", r"\mathrm{d}x = - \theta (x - \mu) \,\mathrm{d}t"),
        ("sigma_0 dW_0", r"\sigma_{0} \,\mathrm{d}W_{0}"),
        ("sqrt(1 - rho^2) dW_1", r"\sqrt{1 - \rho^{2}} \,\mathrm{d}W_{1}"),
        ("(r / R)^gamma R", r"\left(\frac{r}{R}\right)^{\gamma} R"),
        ("Q / U a_1", r"\frac{Q}{U} a_{1}"),
        ("(x_0 - x_1) / (R_ie C)", r"\frac{x_{0} - x_{1}}{R_{\mathrm{ie}} C}"),
        ("-effect treated(t) v", r"- \mathrm{effect}\, \mathrm{treated}(t)\, v"),
        ("x_{i+1} T''", r"x_{i+1} T''"),
        ("2 P -> P2 (c_5),", r"2 P \to \mathrm{P2}\quad (c_{5}),"),
        ("y ~ Poisson(exp(x)).", r"y \sim \mathrm{Poisson}(\exp(x))."),
    ],
)
def test_a_formula(text, expected):
    assert latex(text) == expected


def test_equations_stand_below_each_other():
    assert typeset("    dx_0 = x_1 dt,  dx_1 = sigma dW.\n") == (
        "```math\n\\begin{aligned}\n\\mathrm{d}x_{0} &= x_{1} \\,\\mathrm{d}t, \\\\\n"
        "\\mathrm{d}x_{1} &= \\sigma \\,\\mathrm{d}W.\n\\end{aligned}\n```\n"
    )


def test_parentheses_that_do_not_match_are_told():
    with pytest.raises(AssertionError, match="do not match"):
        latex("a) b")
