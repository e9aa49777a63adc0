// What the volumes of pods demand: which nodes can be used, and what has to happen first.
//
// A claim that is bound restricts its pods to the nodes that its volume's node affinity permits.
// A pod waits while one of its claims does not exist, is being deleted or is not bound. A claim
// with the mode ReadWriteOncePod belongs to one pod at a time: to the one that is bound, else to
// the one that was made first.
//
// The volume of a claim with volumeBindingMode WaitForFirstConsumer is made after a node has been
// chosen for a pod. So its pods are placed first, where the class permits it; then the node is
// written into the claim (an annotation), which its provisioner waits for; and the pods are bound
// when the claim is. A provisioner that cannot make the volume there removes the annotation: then
// the pods are placed anew. Until then the claim's pods that have no node go to that one.
//
// Left out: volumes that exist before their claims (local ones), whose pods wait with this reason;
// the capacity of storage, which the provisioner knows; the number of volumes that a node can
// attach.
//
// Pure. Knows the pods with claims only: the others cost nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "engines/kubernetes/protocol/objects/volume.h"
#include "engines/kubernetes/scheduling/node_rules.h"

namespace longhaul::engines::kubernetes {

class PodVolumes {
 public:
  // --- What is observed.
  void SetClaim(VolumeClaim claim);
  void RemoveClaim(const std::string& key);
  void SetVolume(Volume volume);
  void RemoveVolume(const std::string& name);
  void SetClass(StorageClass storage);
  void RemoveClass(const std::string& name);

  // Whether claims, volumes and classes are observed. Otherwise all pods with claims wait.
  void SetReadable(bool readable);

  // How a pod uses its claims.
  enum class Use : uint8_t {
    kNone,   // it has finished, or must not be scheduled
    kWaits,  // for a node
    kBound,  // to a node
  };
  static bool HasClaims(const Pod& pod) {
    return !pod.volume_claims.empty() || !pod.ephemeral_claims.empty();
  }
  // Begins with the pod, or changes its use. The pod is identified by its key.
  void SetPod(const Pod& pod, Use use);
  void RemovePod(const std::string& key);
  // The answer is wanted again, although nothing has changed.
  void NoteChanged(const std::string& key);

  // --- Answers.
  struct Answer {
    std::string wait;  // why the pod cannot be placed yet; empty: it can
    NodeRules rules;   // of the pod and its volumes
  };
  // Requires that the pod is known.
  Answer AnswerFor(const std::string& key) const;
  // The pods whose answers may have changed since the last call.
  std::set<std::string> TakeChanged() { return std::exchange(changed_, {}); }
  bool has_changed() const { return !changed_.empty() || !failures_.empty(); }

  // --- The volumes of pods that have been placed, and are not bound yet.
  struct Progress {
    std::string refusal;  // why the pod cannot be bound to the node; empty: it can
    std::string wait;     // which claim has no volume yet; empty: none
    std::vector<const VolumeClaim*> unasked;  // into which the node has to be written
  };
  // None for a pod without claims.
  std::optional<Progress> ProgressOn(const std::string& key, const Node& node) const;
  // The node is being written into the claim.
  void OnAsked(const std::string& claim);
  // The node was not written, or nobody knows whether it was.
  void OnNotAsked(const std::string& claim, const std::string& why);
  // A volume was not made where it was asked for: the pods of its claim are to be placed anew.
  struct Failure {
    std::string why;
    std::set<std::string> pods;
  };
  std::vector<Failure> TakeFailures() { return std::exchange(failures_, {}); }

 private:
  struct PodEntry {
    std::string uid;
    Instant created{};
    Use use = Use::kNone;
    NodeRules rules;
    std::vector<std::pair<std::string, bool>> claims;  // keys; whether it is made for this pod
  };
  struct ClaimEntry {
    std::optional<VolumeClaim> claim;  // none: it does not exist
    std::set<std::string> pods;        // that use it
    // The version of the claim into which the node is being written; empty: none.
    std::string asked;
  };

  void AllChanged();
  void ClaimChanged(const ClaimEntry& entry);
  void HolderChanged(const ClaimEntry& entry);
  void CheckAsked(ClaimEntry& entry, const VolumeClaim& next);
  std::string Hindrance(const std::string& pod_key, const PodEntry& pod, const std::string& key,
                        bool ephemeral) const;
  std::string WaitFor(const VolumeClaim& claim, NodeRules& rules) const;
  void AddProgress(const ClaimEntry& entry, const Node& node, Progress& progress) const;
  std::string HindranceOfMaking(const VolumeClaim& claim) const;
  const std::string* HolderOf(const ClaimEntry& entry) const;

  bool readable_ = true;
  std::map<std::string, PodEntry> pods_;
  std::map<std::string, ClaimEntry> claims_;
  std::map<std::string, Volume> volumes_;
  std::map<std::string, std::set<std::string>> claims_of_volume_;  // bound ones
  std::map<std::string, StorageClass> classes_;
  std::set<std::string> changed_;
  std::vector<Failure> failures_;
};

}  // namespace longhaul::engines::kubernetes
