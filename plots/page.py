"""report.html."""


def render(shown):
    return ""
