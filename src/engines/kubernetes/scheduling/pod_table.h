// The pods that are known, and how each counts on its node.
//
// The sums of nodes follow each change of a pod's account: what the tasks of our jobs use is known
// to the scheduler, and everything else on a node is its load.
#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "engines/kubernetes/scheduling/amounts.h"
#include "engines/kubernetes/scheduling/pod_record.h"

namespace longhaul::engines::kubernetes {

class PodTable {
 public:
  // Null for a pod that is not known. References stay valid until the pod is erased.
  PodRecord* Find(const PodName& pod);
  PodRecord* FindKey(const std::string& key);
  const PodRecord* FindKey(const std::string& key) const;

  // Requires that no pod of this key is known.
  PodRecord& Add(const PodName& name);
  void Erase(const std::string& key);

  void SetAccount(PodRecord& record, PodRecord::Account account);

  Amounts LoadOf(const std::string& node) const;
  // With the tasks of our jobs.
  Amounts UseOf(const std::string& node) const;
  // The pods that count as tasks on the node.
  std::set<std::string> TasksOn(const std::string& node) const;

  // The nodes on which something has changed, in order: loads, or tasks that have left. The second
  // adds one that has changed for another reason.
  std::set<std::string> TakeChangedNodes();
  void NoteChanged(const std::string& node) { changed_.insert(node); }
  bool has_changed_nodes() const { return !changed_.empty(); }

  // Whether the sums are those of the pods.
  Status Check() const;

 private:
  std::unordered_map<std::string, PodRecord> pods_;  // walked by Check alone
  std::unordered_map<std::string, Amounts> loads_;
  std::unordered_map<std::string, std::set<std::string>> tasks_on_;
  std::set<std::string> changed_;
};

}  // namespace longhaul::engines::kubernetes
