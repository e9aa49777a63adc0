// For tests: claims whose volumes are made late, and what makes them in a simulated cluster.
#pragma once

#include <functional>
#include <string>

#include "base/random.h"
#include "base/status.h"
#include "engines/kubernetes/double/api_double.h"

namespace longhaul::engines::kubernetes {

// A provisioner of volumes and the controller that binds claims to them.
class SimulatedProvisioner {
 public:
  // Calls the API: method, path, body and media type.
  using Call = std::function<ApiResponse(const std::string&, const std::string&, const Json&,
                                         const std::string&)>;
  // Requires that `api` outlives this.
  SimulatedProvisioner(const ApiDouble& api, Call call) : api_(api), call_(std::move(call)) {}

  // Adds the class of the claims.
  void AddClass();
  // Makes a claim for a pod. Returns its name.
  std::string MakeClaim(const std::string& pod);
  // Makes the volume of each claim that has a node. If `fails` returns true, it makes none for that
  // claim and removes the node from it, as a provisioner does that finds no room. Returns a line
  // about each claim that it has changed.
  std::string Tend(Random& rng, const std::function<bool()>& fails);
  // Whether all claims of the pod have volumes.
  bool HasVolumes(const Json& pod) const;
  int volumes() const { return volumes_; }  // made

 private:
  std::string TendClaim(const Json& claim, const std::string& node, bool fails);

  const ApiDouble& api_;
  const Call call_;
  int claims_ = 0;
  int volumes_ = 0;
};

}  // namespace longhaul::engines::kubernetes
