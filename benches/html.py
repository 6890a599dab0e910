def page(run, lines):
    return ""
