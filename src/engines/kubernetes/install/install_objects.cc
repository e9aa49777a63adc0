#include "engines/kubernetes/install/install_objects.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engines/kubernetes/import/manifest/manifest_reader.h"
#include "engines/kubernetes/install/shipped_manifests.h"
#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

// What stands for the image in the manifests, without its tag.
constexpr std::string_view kImage = "registry.example/longhaul:";
constexpr size_t kMostImage = 512;

struct Kind {
  const char* kind;
  Resource resource;
};

const std::array<Kind, 10>& Kinds() {
  static const char* const kRbac = "rbac.authorization.k8s.io";
  static const std::array<Kind, 10> kKinds = {{
      {"Namespace", {"", "v1", "namespaces", false}},
      {"ServiceAccount", {"", "v1", "serviceaccounts", true}},
      {"ClusterRole", {kRbac, "v1", "clusterroles", false}},
      {"ClusterRoleBinding", {kRbac, "v1", "clusterrolebindings", false}},
      {"Role", {kRbac, "v1", "roles", true}},
      {"RoleBinding", {kRbac, "v1", "rolebindings", true}},
      {"Deployment", {"apps", "v1", "deployments", true}},
      {"CustomResourceDefinition",
       {"apiextensions.k8s.io", "v1", "customresourcedefinitions", false}},
      {"PriorityClass", {"scheduling.k8s.io", "v1", "priorityclasses", false}},
      {"FlowSchema", {"flowcontrol.apiserver.k8s.io", "v1", "flowschemas", false}},
  }};
  return kKinds;
}

bool IsImageCharacter(char c) {
  const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return plain || std::string_view("._-/:@").find(c) != std::string_view::npos;
}

std::string_view ShippedManifest(InstallPart part) {
  switch (part) {
    case InstallPart::kDefinition:
      return DefinitionManifest();
    case InstallPart::kScheduler:
      return SchedulerManifest();
    case InstallPart::kOperator:
      return OperatorManifest();
    case InstallPart::kFlowSchema:
      return FlowSchemaManifest();
    case InstallPart::kNodeHealth:
      return NodeHealthManifest();
  }
  return "";
}

}  // namespace

std::string_view PartName(InstallPart part) {
  constexpr std::array<std::string_view, 5> kNames = {"definition", "scheduler", "operator",
                                                      "flow-schema", "node-health"};
  return kNames.at(static_cast<size_t>(part));
}

Result<std::string> ManifestOf(InstallPart part, const std::string& image) {
  const bool good = !image.empty() && image.size() <= kMostImage &&
                    std::all_of(image.begin(), image.end(), IsImageCharacter);
  if (!good) return InvalidArgument("'" + image + "' is no name of an image");
  std::string text(ShippedManifest(part));
  for (size_t at = text.find(kImage); at != text.npos; at = text.find(kImage, at + image.size())) {
    size_t end = at + kImage.size();
    while (end < text.size() && IsImageCharacter(text[end])) ++end;
    text.replace(at, end - at, image);
  }
  return text;
}

Result<std::vector<InstallObject>> ReadInstallObjects(InstallPart part, const std::string& text) {
  ASSIGN_OR_RETURN(std::vector<Manifest> manifests,
                   ReadManifests(text, std::string(PartName(part))));
  std::vector<InstallObject> objects;
  for (Manifest& manifest : manifests) {
    const std::string kind = TextAt(manifest.object, "kind");
    const auto found = std::find_if(Kinds().begin(), Kinds().end(),
                                    [&](const Kind& each) { return each.kind == kind; });
    if (found == Kinds().end()) return InvalidArgument("the kind " + kind + " is not known");
    const JobJson& meta = MemberOf(manifest.object, "metadata");
    InstallObject object;
    object.part = part;
    object.resource = found->resource;
    object.name = {TextAt(meta, "namespace"), TextAt(meta, "name")};
    object.label = kind + " " + object.name.name;
    object.object = std::move(manifest.object);
    objects.push_back(std::move(object));
  }
  return objects;
}

bool StaysInstalled(const InstallObject& object) {
  return object.part == InstallPart::kDefinition || object.resource.plural == "namespaces";
}

}  // namespace longhaul::engines::kubernetes
