#include "engines/kubernetes/scheduling/simulated_provisioner.h"

#include "base/check.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr char kClaims[] = "/api/v1/namespaces/ns/persistentvolumeclaims";
constexpr char kJson[] = "application/json";
constexpr char kMergePatch[] = "application/merge-patch+json";

bool IsBound(const Json& claim) { return TextAt(claim, {"status", "phase"}) == "Bound"; }

}  // namespace

void SimulatedProvisioner::AddClass() {
  const Json late = {{"metadata", {{"name", "late"}}},
                     {"provisioner", "csi.example.com"},
                     {"volumeBindingMode", "WaitForFirstConsumer"}};
  const std::string path = "/apis/storage.k8s.io/v1/storageclasses";
  CHECK(call_("POST", path, late, kJson).status == 201);
}

std::string SimulatedProvisioner::MakeClaim(const std::string& pod) {
  std::string name = pod + "-" + std::to_string(claims_++);
  const Json claim = {
      {"metadata", {{"name", name}}},
      {"spec", {{"accessModes", Json::array({"ReadWriteOnce"})}, {"storageClassName", "late"}}}};
  const ApiResponse made = call_("POST", kClaims, claim, kJson);
  CHECK(made.status == 201) << made.body;
  return name;
}

std::string SimulatedProvisioner::Tend(Random& rng, const std::function<bool()>& fails) {
  std::string lines;
  for (const ObjectName& name : api_.Names("persistentvolumeclaims")) {
    const Json& claim = *api_.Find("persistentvolumeclaims", name);
    const Json annotations = claim["metadata"].value("annotations", Json::object());
    const std::string node = annotations.value(std::string(kSelectedNodeAnnotation), "");
    if (IsBound(claim) || node.empty() || rng.Below(3) == 0) continue;
    const bool gone = api_.Find("nodes", ObjectName{"", node}) == nullptr;
    lines += TendClaim(claim, node, gone || fails());
  }
  return lines;
}

std::string SimulatedProvisioner::TendClaim(const Json& claim, const std::string& node,
                                            bool fails) {
  const std::string name = TextAt(claim, {"metadata", "name"});
  const std::string path = kClaims + ("/" + name);
  if (fails) {
    const Json none = {{std::string(kSelectedNodeAnnotation), nullptr}};
    call_("PATCH", path, {{"metadata", {{"annotations", none}}}}, kMergePatch);
    return "no volume for " + name + " on " + node + "\n";
  }
  const std::string volume = "pv-" + name;
  call_("POST", "/api/v1/persistentvolumes", {{"metadata", {{"name", volume}}}}, kJson);
  call_("PATCH", path, {{"spec", {{"volumeName", volume}}}}, kMergePatch);
  call_("PATCH", path + "/status", {{"status", {{"phase", "Bound"}}}}, kMergePatch);
  ++volumes_;
  return "volume for " + name + " on " + node + "\n";
}

bool SimulatedProvisioner::HasVolumes(const Json& pod) const {
  for (const Json& volume : pod["spec"].value("volumes", Json::array())) {
    const std::string claim = TextAt(volume, {"persistentVolumeClaim", "claimName"});
    const Json* found = api_.Find("persistentvolumeclaims", ObjectName{"ns", claim});
    if (found == nullptr || !IsBound(*found)) return false;
  }
  return true;
}

}  // namespace longhaul::engines::kubernetes
