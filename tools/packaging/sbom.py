"""The software bill of materials of a package: a CycloneDX 1.5 document."""

import datetime
import json
import urllib.parse
import uuid


def component(package, how):
    """A Debian package whose code a package of ours contains or loads; `how` says which of them."""
    names = package.licenses() or [f"stated in the file {package.name}/copyright"]
    name, release = (urllib.parse.quote(text, safe="~") for text in (package.name, package.version))
    purl = f"pkg:deb/debian/{name}@{release}?arch=amd64&distro=debian-12"
    properties = [{"name": "longhaul:how", "value": how}]
    properties += [{"name": "longhaul:file", "value": name} for name in package.files]
    return {"type": "library", "bom-ref": purl, "name": package.name, "version": package.version,
            "purl": purl, "properties": properties,
            "licenses": [{"license": {"name": name}} for name in names]}


def document(name, version, date, components):
    """The text of the document of our package `name`. The same input gives the same bytes."""
    ref = f"longhaul:{name}@{version}"
    text = json.dumps(components, sort_keys=True)
    moment = datetime.datetime.fromtimestamp(date, datetime.timezone.utc)
    return json.dumps({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, ref + text)}",
        "version": 1,
        "metadata": {
            "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": ref, "name": name, "version": version,
                          "licenses": [{"license": {"id": "Apache-2.0"}}]},
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": [each["bom-ref"] for each in components]}],
    }, indent=1, ensure_ascii=False) + "\n"
