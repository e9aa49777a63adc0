"""The fields of a pod that the process kubelet understands, and what they mean.

Fields are accepted by lists of names. A field that is on no list is refused, so that a test cannot
pass because something was ignored.
"""

import fractions
import json
import math
import re

SPEC_FIELDS = {
    "volumes", "containers", "initContainers", "restartPolicy", "terminationGracePeriodSeconds",
    "nodeName", "serviceAccountName", "serviceAccount", "hostname",
    # They concern the scheduler and the API server only.
    "schedulerName", "schedulingGates", "schedulingGroup", "tolerations", "priority",
    "priorityClassName", "preemptionPolicy", "nodeSelector", "affinity",
    "topologySpreadConstraints", "overhead", "automountServiceAccountToken",
    # They are not applied: processes run as the user of the test, without images and without DNS.
    "securityContext", "dnsPolicy", "enableServiceLinks", "imagePullSecrets", "subdomain",
}
CONTAINER_FIELDS = {
    "name", "image", "command", "args", "env", "workingDir", "resources", "volumeMounts",
    "terminationMessagePath", "terminationMessagePolicy",
    # They are not applied.
    "imagePullPolicy", "ports", "securityContext", "resizePolicy",
}
MOUNT_FIELDS = {"name", "mountPath", "readOnly"}  # readOnly is not enforced
VOLUME_FIELDS = {
    "emptyDir": {"medium", "sizeLimit"},  # sizeLimit is not enforced
    "downwardAPI": {"items", "defaultMode"},
    "configMap": {"name", "items", "defaultMode", "optional"},
    "projected": {"sources", "defaultMode"},
}
SOURCE_FIELDS = {
    "serviceAccountToken": {"audience", "expirationSeconds", "path"},
    "downwardAPI": {"items"},
    "configMap": {"name", "items", "optional"},
}
PLAIN_PATHS = {"metadata.name", "metadata.namespace", "metadata.uid"}
ENV_PATHS = PLAIN_PATHS | {"spec.nodeName", "spec.serviceAccountName", "status.podIP",
                           "status.hostIP"}
VOLUME_PATHS = PLAIN_PATHS | {"metadata.labels", "metadata.annotations"}
RESOURCES = {"limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
ENTRY = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
EXPRESSION = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
SUFFIXES = {"": 1, "n": fractions.Fraction(1, 10**9), "u": fractions.Fraction(1, 10**6),
            "m": fractions.Fraction(1, 1000),
            **{name: 1000**(i + 1) for i, name in enumerate("kMGTPE")},
            **{name + "i": 1024**(i + 1) for i, name in enumerate("KMGTPE")}}


def others(path, fields, accepted):
    """The fields that are set and not accepted. What is false or empty asks for nothing."""
    return [f"{path}.{name}" for name, value in fields.items() if value and name not in accepted]


def unsupported_reference(path, reference, accepted):
    """A reference to a field or to a resource of the pod."""
    yield from others(path, reference, {"fieldRef", "resourceFieldRef", "path", "mode"})
    if "fieldRef" in reference:
        of = reference["fieldRef"]["fieldPath"]
        if of not in accepted and not ENTRY.fullmatch(of):
            yield f"{path}.fieldRef.fieldPath {of}"
    if "resourceFieldRef" in reference:
        if reference["resourceFieldRef"]["resource"] not in RESOURCES:
            yield f"{path}.resourceFieldRef.resource {reference['resourceFieldRef']['resource']}"


def unsupported_in_container(path, container):
    yield from others(path, container, CONTAINER_FIELDS)
    if not container.get("command"):
        yield f"{path}.command left out, because there is no image that has one"
    for i, variable in enumerate(container.get("env", [])):
        yield from others(f"{path}.env[{i}]", variable, {"name", "value", "valueFrom"})
        yield from unsupported_reference(f"{path}.env[{i}].valueFrom",
                                         variable.get("valueFrom", {}), ENV_PATHS)
    for i, mount in enumerate(container.get("volumeMounts", [])):
        yield from others(f"{path}.volumeMounts[{i}]", mount, MOUNT_FIELDS)


def unsupported_in_volume(path, volume, fields_of_kinds):
    """A volume, or a source of a projected volume."""
    for kind, fields in volume.items():
        if kind == "name":
            continue
        if kind not in fields_of_kinds:
            yield f"{path}.{kind}"
            continue
        yield from others(f"{path}.{kind}", fields, fields_of_kinds[kind])
        if kind == "downwardAPI":
            for i, item in enumerate(fields.get("items", [])):
                yield from unsupported_reference(f"{path}.{kind}.items[{i}]", item, VOLUME_PATHS)
        if kind == "emptyDir" and fields.get("medium", "") not in ("", "Memory"):
            yield f"{path}.emptyDir.medium {fields['medium']}"
        for i, source in enumerate(fields.get("sources", [])):
            yield from unsupported_in_volume(f"{path}.{kind}.sources[{i}]", source, SOURCE_FIELDS)


def unsupported(pod):
    """The fields of a pod that the process kubelet refuses."""
    spec = pod["spec"]
    found = others("spec", spec, SPEC_FIELDS)
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind, [])):
            found += unsupported_in_container(f"spec.{kind}[{i}]", container)
    for i, volume in enumerate(spec.get("volumes", [])):
        found += unsupported_in_volume(f"spec.volumes[{i}]", volume, VOLUME_FIELDS)
    return found


def quantity(text):
    """The number that a quantity such as 500m, 1Gi or 1e3 stands for."""
    number, suffix = re.fullmatch(r"([-+0-9.]+(?:[eE][-+]?[0-9]+)?)([a-zA-Z]*)",
                                  str(text)).groups()
    return fractions.Fraction(number) * SUFFIXES[suffix]


def requests(pod):
    """What a pod takes of its node: the sum of its containers, or more for an init container."""
    def of(container):
        resources = container.get("resources", {})
        return {**resources.get("limits", {}), **resources.get("requests", {})}

    total = {"pods": fractions.Fraction(1)}
    for container in pod["spec"]["containers"]:
        for name, amount in of(container).items():
            total[name] = total.get(name, 0) + quantity(amount)
    for container in pod["spec"].get("initContainers", []):
        for name, amount in of(container).items():
            total[name] = max(total.get(name, 0), quantity(amount))
    return total


def format_map(entries):
    """Labels or annotations as a file holds them."""
    return "".join(f"{key}={json.dumps(value, ensure_ascii=False)}\n"
                   for key, value in sorted(entries.items()))


def field_value(pod, addresses, path):
    """The text of a field. `addresses` are those of the pod: podIP and hostIP."""
    entry = ENTRY.fullmatch(path)
    if entry:
        return pod["metadata"].get(entry.group(1), {}).get(entry.group(2), "")
    group, name = path.split(".")
    if group == "status":
        return addresses[name]
    value = pod[group].get(name, "")
    if name in ("labels", "annotations"):
        return format_map(value or {})
    return value


def resource_value(container, allocatable, reference):
    """A limit or request of a container, rounded up to whole divisors. Without a limit, it is what
    the node has."""
    kind, name = reference["resource"].split(".")
    default = allocatable[name] if kind == "limits" else "0"
    amount = quantity(container.get("resources", {}).get(kind, {}).get(name, default))
    divisor = quantity(reference.get("divisor", "1")) or 1
    return str(math.ceil(amount / divisor))


def expand(text, variables):
    """Replaces $(NAME) by the variable, and $$ by $. An unknown name is left as it is."""
    def value(match):
        if match.group(1):
            return "$"
        return variables.get(match.group(2), match.group())

    return EXPRESSION.sub(value, text)


def environment(container, pod, addresses, allocatable):
    """The variables of a container. A value can use those before it."""
    variables = {}
    for variable in container.get("env", []):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            value = field_value(pod, addresses, source["fieldRef"]["fieldPath"])
        elif "resourceFieldRef" in source:
            value = resource_value(container, allocatable, source["resourceFieldRef"])
        else:
            value = expand(variable.get("value", ""), variables)
        variables[variable["name"]] = value
    return variables


def replace_paths(text, paths):
    """Replaces each path of the container by its place on this machine.

    A path counts where it begins a path, as in `--folder=/a/b`, and where a whole name of it ends:
    /a is replaced in /a and /a/b, not in /ab and /x/a. A longer path wins over a shorter one.
    """
    if not paths:
        return text
    longest_first = sorted((path.rstrip("/") for path in paths), key=len, reverse=True)
    pattern = "|".join(re.escape(path) for path in longest_first)
    places = {path.rstrip("/"): str(place) for path, place in paths.items()}
    return re.sub(rf"(?<![\w./-])(?:{pattern})(?![\w.-])", lambda match: places[match.group()],
                  text)
