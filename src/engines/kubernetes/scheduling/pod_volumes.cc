#include "engines/kubernetes/scheduling/pod_volumes.h"

#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

std::string ClaimText(const std::string& key) {
  return "claim '" + Printable(key.substr(key.find('/') + 1), 253) + "'";
}

std::string VolumeText(const VolumeClaim& claim) {
  return "volume '" + Printable(claim.volume, 253) + "' of " + ClaimText(claim.meta.Key());
}

NodeSelectorTerm OfName(std::string_view node) {
  return {{}, {{"metadata.name", "In", {std::string(node)}}}};
}

}  // namespace

void PodVolumes::ClaimChanged(const ClaimEntry& entry) {
  changed_.insert(entry.pods.begin(), entry.pods.end());
}

// The uses of a claim that thousands of pods share change often, and concern no other pod.
void PodVolumes::HolderChanged(const ClaimEntry& entry) {
  if (entry.claim && entry.claim->one_pod) ClaimChanged(entry);
}

void PodVolumes::SetClaim(VolumeClaim claim) {
  const std::string key = claim.meta.Key();
  ClaimEntry& entry = claims_[key];
  if (entry.claim && entry.claim->volume != claim.volume) {
    const auto at = claims_of_volume_.find(entry.claim->volume);
    if (at != claims_of_volume_.end() && at->second.erase(key) > 0 && at->second.empty()) {
      claims_of_volume_.erase(at);
    }
  }
  if (!claim.volume.empty()) claims_of_volume_[claim.volume].insert(key);
  CheckAsked(entry, claim);
  entry.claim = std::move(claim);
  ClaimChanged(entry);
}

void PodVolumes::RemoveClaim(const std::string& key) {
  const auto at = claims_.find(key);
  if (at == claims_.end() || !at->second.claim) return;
  const auto volume = claims_of_volume_.find(at->second.claim->volume);
  if (volume != claims_of_volume_.end()) {
    volume->second.erase(key);
    if (volume->second.empty()) claims_of_volume_.erase(volume);
  }
  at->second.claim.reset();
  at->second.asked.clear();
  ClaimChanged(at->second);
  if (at->second.pods.empty()) claims_.erase(at);
}

void PodVolumes::SetVolume(Volume volume) {
  const std::string name = volume.meta.name;
  volumes_[name] = std::move(volume);
  const auto claims = claims_of_volume_.find(name);
  if (claims == claims_of_volume_.end()) return;
  for (const std::string& key : claims->second) ClaimChanged(claims_.at(key));
}

void PodVolumes::RemoveVolume(const std::string& name) {
  volumes_.erase(name);
  const auto claims = claims_of_volume_.find(name);
  if (claims == claims_of_volume_.end()) return;
  for (const std::string& key : claims->second) ClaimChanged(claims_.at(key));
}

void PodVolumes::AllChanged() {
  for (const auto& [key, pod] : pods_) changed_.insert(key);
}

// Classes are few and change rarely: all pods with claims are looked at again.
void PodVolumes::SetClass(StorageClass storage) {
  const std::string name = storage.meta.name;
  classes_[name] = std::move(storage);
  AllChanged();
}

void PodVolumes::RemoveClass(const std::string& name) {
  classes_.erase(name);
  AllChanged();
}

void PodVolumes::SetReadable(bool readable) {
  if (std::exchange(readable_, readable) != readable) AllChanged();
}

void PodVolumes::SetPod(const Pod& pod, Use use) {
  const std::string key = pod.meta.Key();
  auto known = pods_.find(key);
  if (known != pods_.end() && known->second.uid != pod.meta.uid) {
    RemovePod(key);
    known = pods_.end();
  }
  if (known == pods_.end()) {
    known = pods_.try_emplace(key).first;
    PodEntry& entry = known->second;
    entry.uid = pod.meta.uid;
    entry.created = pod.meta.created_at.value_or(Instant());
    entry.rules = RulesOf(pod);
    const std::string& place = pod.meta.namespace_name;
    for (const std::string& name : pod.volume_claims) {
      entry.claims.emplace_back(place + "/" + name, false);
    }
    for (const std::string& name : pod.ephemeral_claims) {
      entry.claims.emplace_back(place + "/" + name, true);
    }
    for (const auto& [claim, ephemeral] : entry.claims) claims_[claim].pods.insert(key);
    changed_.insert(key);
  } else if (known->second.use == use) {
    return;
  }
  known->second.use = use;
  for (const auto& [claim, ephemeral] : known->second.claims) HolderChanged(claims_.at(claim));
}

void PodVolumes::RemovePod(const std::string& key) {
  const auto pod = pods_.find(key);
  if (pod == pods_.end()) return;
  for (const auto& [claim, ephemeral] : pod->second.claims) {
    const auto at = claims_.find(claim);
    if (at == claims_.end()) continue;  // the pod names it twice
    at->second.pods.erase(key);
    HolderChanged(at->second);
    if (at->second.pods.empty() && !at->second.claim) claims_.erase(at);
  }
  pods_.erase(pod);
  changed_.erase(key);
}

void PodVolumes::NoteChanged(const std::string& key) {
  if (pods_.contains(key)) changed_.insert(key);
}

// The pod to which a claim of one pod belongs; null: none uses it.
const std::string* PodVolumes::HolderOf(const ClaimEntry& entry) const {
  const std::string* holder = nullptr;
  std::tuple<bool, Instant, std::string> first;
  for (const std::string& key : entry.pods) {
    const PodEntry& pod = pods_.at(key);
    if (pod.use == Use::kNone) continue;
    std::tuple<bool, Instant, std::string> order(pod.use != Use::kBound, pod.created, key);
    if (holder != nullptr && first < order) continue;
    holder = &key;
    first = std::move(order);
  }
  return holder;
}

// Why no pod, or not this one, can use the claim now; empty: it can.
std::string PodVolumes::Hindrance(const std::string& pod_key, const PodEntry& pod,
                                  const std::string& key, bool ephemeral) const {
  const ClaimEntry& entry = claims_.at(key);
  const std::string text = ClaimText(key);
  if (!entry.claim) return text + " does not exist";
  const VolumeClaim& claim = *entry.claim;
  if (ephemeral && (!claim.meta.controller || claim.meta.controller->uid != pod.uid)) {
    return text + " was not made for this pod";
  }
  if (claim.meta.being_deleted) return text + " is being deleted";
  if (claim.phase == "Lost") return text + " has lost its volume";
  const std::string* holder = claim.one_pod ? HolderOf(entry) : nullptr;
  if (holder != nullptr && *holder != pod_key) {
    return text + " (ReadWriteOncePod) is in use by pod " + *holder;
  }
  return {};
}

// Why no volume is made for the claim, which has none, when a node is chosen; empty: one is.
std::string PodVolumes::HindranceOfMaking(const VolumeClaim& claim) const {
  const auto storage = classes_.find(claim.storage_class);
  const bool known = storage != classes_.end();
  if (!claim.volume.empty() || !known || !storage->second.waits_for_consumer) {
    return ClaimText(claim.meta.Key()) + " is not bound yet";
  }
  if (storage->second.makes_volumes()) return {};
  return ClaimText(claim.meta.Key()) + " is not bound yet: its StorageClass '" +
         Printable(claim.storage_class, 253) +
         "' makes no volumes (kubernetes.io/no-provisioner), and Longhaul does not choose among "
         "those that exist";
}

// Why the claim's pods cannot be placed; empty: they can, and `rules` has where.
std::string PodVolumes::WaitFor(const VolumeClaim& claim, NodeRules& rules) const {
  if (!claim.bound()) {
    std::string hindrance = HindranceOfMaking(claim);
    if (!hindrance.empty()) return hindrance;
    const auto& topologies = classes_.at(claim.storage_class).topologies;
    if (!claim.selected_node().empty()) {
      rules.terms.push_back({OfName(claim.selected_node())});
    } else if (!topologies.empty()) {
      rules.terms.push_back(topologies);
    }
    return {};
  }
  const auto volume = volumes_.find(claim.volume);
  if (volume == volumes_.end()) return VolumeText(claim) + " does not exist";
  if (!volume->second.node_terms) return {};
  NodeRules demanded;
  demanded.terms.push_back(*volume->second.node_terms);
  const Status understood = CheckRules(demanded);
  if (!understood.ok()) return VolumeText(claim) + ": " + understood.message();
  rules.terms.push_back(std::move(demanded.terms[0]));
  return {};
}

PodVolumes::Answer PodVolumes::AnswerFor(const std::string& key) const {
  const auto pod = pods_.find(key);
  CHECK(pod != pods_.end()) << "pod " << key << " has no claims";
  Answer answer;
  answer.rules = pod->second.rules;
  if (!readable_) {
    answer.wait =
        "Longhaul may not read persistentvolumeclaims, persistentvolumes and storageclasses: its "
        "role lacks the right to list and watch them";
    return answer;
  }
  for (const auto& [claim, ephemeral] : pod->second.claims) {
    answer.wait = Hindrance(key, pod->second, claim, ephemeral);
    if (answer.wait.empty()) answer.wait = WaitFor(*claims_.at(claim).claim, answer.rules);
    if (!answer.wait.empty()) return answer;
  }
  return answer;
}

std::optional<PodVolumes::Progress> PodVolumes::ProgressOn(const std::string& key,
                                                           const Node& node) const {
  const auto pod = pods_.find(key);
  if (pod == pods_.end()) return std::nullopt;
  Progress progress;
  for (const auto& [claim, ephemeral] : pod->second.claims) {
    progress.refusal = Hindrance(key, pod->second, claim, ephemeral);
    if (progress.refusal.empty()) AddProgress(claims_.at(claim), node, progress);
    if (!progress.refusal.empty()) return progress;
  }
  return progress;
}

void PodVolumes::AddProgress(const ClaimEntry& entry, const Node& node, Progress& progress) const {
  const VolumeClaim& claim = *entry.claim;
  if (claim.bound()) {
    // Claims and volumes are observed separately.
    if (!volumes_.contains(claim.volume)) {
      progress.wait = VolumeText(claim) + " is not known yet";
      return;
    }
    NodeRules rules;
    progress.refusal = WaitFor(claim, rules);
    if (progress.refusal.empty() && !MatchesLabels(rules, node)) {
      progress.refusal = VolumeText(claim) + " cannot be used on node '" + node.meta.name + "'";
    }
    return;
  }
  progress.refusal = claim.volume.empty() ? HindranceOfMaking(claim) : std::string();
  if (!progress.refusal.empty()) return;
  progress.wait = ClaimText(claim.meta.Key()) + " has no volume yet, which is being made";
  const bool asked = !entry.asked.empty() || !claim.selected_node().empty();
  if (!asked && claim.volume.empty()) progress.unasked.push_back(&claim);
}

void PodVolumes::OnAsked(const std::string& claim) {
  const auto entry = claims_.find(claim);
  if (entry == claims_.end() || !entry->second.claim) return;
  entry->second.asked = entry->second.claim->meta.resource_version;
}

void PodVolumes::OnNotAsked(const std::string& claim, const std::string& why) {
  const auto entry = claims_.find(claim);
  if (entry == claims_.end() || entry->second.asked.empty()) return;
  entry->second.asked.clear();
  failures_.push_back({why, entry->second.pods});
}

// The node was written into the version that is known, or not at all. So if the next version lacks
// it, either the provisioner has removed it, or somebody else has changed the claim first.
void PodVolumes::CheckAsked(ClaimEntry& entry, const VolumeClaim& next) {
  if (!entry.claim) return;
  const bool was_selected = !entry.claim->selected_node().empty();
  const bool asked = !entry.asked.empty() && entry.asked != next.meta.resource_version;
  if (asked) entry.asked.clear();
  if (!next.selected_node().empty() || !next.volume.empty() || !(was_selected || asked)) return;
  failures_.push_back({"no volume could be made for " + ClaimText(next.meta.Key()), entry.pods});
}

}  // namespace longhaul::engines::kubernetes
