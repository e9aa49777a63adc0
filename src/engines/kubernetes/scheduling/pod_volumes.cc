#include "engines/kubernetes/scheduling/pod_volumes.h"

#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

std::string NameOf(const std::string& key) { return key.substr(key.find('/') + 1); }

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

// Why the pod waits because of this claim; empty: it does not, and `rules` has what the claim's
// volume demands.
std::string PodVolumes::WaitFor(const std::string& pod_key, const PodEntry& pod,
                                const std::string& key, bool ephemeral, NodeRules& rules) const {
  const ClaimEntry& entry = claims_.at(key);
  const std::string text = "claim '" + Printable(NameOf(key), 253) + "'";
  if (!entry.claim) return text + " does not exist";
  const VolumeClaim& claim = *entry.claim;
  if (ephemeral && (!claim.meta.controller || claim.meta.controller->uid != pod.uid)) {
    return text + " was not made for this pod";
  }
  if (claim.meta.being_deleted) return text + " is being deleted";
  if (claim.phase == "Lost") return text + " has lost its volume";
  if (!claim.bound()) {
    const auto storage = classes_.find(claim.storage_class);
    if (storage == classes_.end() || !storage->second.waits_for_consumer) {
      return text + " is not bound yet";
    }
    return text + " is not bound yet: its StorageClass '" + claim.storage_class +
           "' has volumeBindingMode WaitForFirstConsumer, for which Longhaul does not choose nodes";
  }
  const std::string* holder = claim.one_pod ? HolderOf(entry) : nullptr;
  if (holder != nullptr && *holder != pod_key) {
    return text + " (ReadWriteOncePod) is in use by pod " + *holder;
  }
  const auto volume = volumes_.find(claim.volume);
  const std::string volume_text = "volume '" + Printable(claim.volume, 253) + "' of " + text;
  if (volume == volumes_.end()) return volume_text + " does not exist";
  if (!volume->second.node_terms) return {};
  NodeRules demanded;
  demanded.terms.push_back(*volume->second.node_terms);
  const Status understood = CheckRules(demanded);
  if (!understood.ok()) return volume_text + ": " + understood.message();
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
    answer.wait = WaitFor(key, pod->second, claim, ephemeral, answer.rules);
    if (!answer.wait.empty()) return answer;
  }
  return answer;
}

}  // namespace longhaul::engines::kubernetes
