// For tests: nodes and pods in the double of the API server, and the people who change them.
//
// Checks each write of the program: it uncordons only what it has cordoned, keeps to the limit,
// leaves the taints of others alone, and does not cordon again what somebody has uncordoned.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/double/api_double.h"
#include "engines/kubernetes/health/node_health.h"

namespace longhaul::engines::kubernetes {

class SimulatedNodes {
 public:
  // Nodes n0, n1, ...
  SimulatedNodes(int nodes, NodeLimit limit);

  ApiDouble& api() { return api_; }
  Json Node(const std::string& name) const;
  // The condition of our type, or null.
  Json Health(const std::string& name) const;
  bool IsCordoned(const std::string& name) const;
  // The record in the annotation, or an empty text.
  std::string Record(const std::string& name) const;
  std::set<std::string> Taints(const std::string& name) const;
  // The reasons of all events, in the order of the events' names.
  std::multiset<std::string> EventReasons() const;

  // --- What others do.
  void SetCondition(const std::string& node, const std::string& type, bool is_true);
  // A pod on the node with one device.
  void SetDevice(const std::string& pod, const std::string& node, const std::string& health);
  void RemovePod(const std::string& pod);
  void UserCordons(const std::string& node, bool cordon);
  void UserTaints(const std::string& node, const std::string& key);
  void Touch(const std::string& node);  // another write of the node

  // What the program sends.
  ApiResponse Serve(const Call& call);
  // The writes that broke a rule; empty: none.
  const std::string& violations() const { return violations_; }
  int cordons() const { return cordons_; }
  int uncordons() const { return uncordons_; }

  // What does not agree with the evidence, when enough time has passed.
  std::string AtRest() const;

 private:
  ApiResponse Patch(const std::string& manager, const std::string& target, Json body,
                    const std::string& type);
  void Check(const std::string& name, const Json& before, const Json& after);
  bool HasEvidence(const std::string& name) const;
  std::set<std::string> OurCordons() const;

  ApiDouble api_;
  const NodeLimit limit_;
  size_t nodes_;
  std::map<std::string, std::string> cordoner_;             // by node; who cordoned it
  std::map<std::string, std::set<std::string>> overruled_;  // by node; the evidence at that time
  std::string violations_;
  int cordons_ = 0;
  int uncordons_ = 0;
};

}  // namespace longhaul::engines::kubernetes
