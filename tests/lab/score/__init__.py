"""How right the verdicts are: every modelled scenario through the stream's own rules, held against what is true."""
