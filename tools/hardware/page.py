"""The page of a check: Markdown for people; the JSON beside it holds the same."""


def text_of(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def figures_text(figures):
    return ", ".join(f"{name.replace('_', ' ')} {text_of(value)}"
                     for name, value in figures.items())


def page(result):
    lines = [f"# Hardware check, {result['date']}", "",
             f"`tools/hardware_check` of Longhaul at commit {result['commit']}.", "",
             "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in result["machine"].items()]
    lines += ["", "| part | result | what it checks | figures |", "|---|---|---|---|"]
    for part in result["parts"]:
        outcome = part["result"]
        details = figures_text(part["figures"]) if part["figures"] else part.get("reason", "")
        lines.append(f"| {part['name']} | {outcome} | {part['checks']} | {details} |")
    lines += ["", "Names that end in ms, s, gib or mib carry that unit. A part whose figures "
              "name the device `cpu` ran without a GPU and shows nothing about one.", ""]
    return "\n".join(lines)
