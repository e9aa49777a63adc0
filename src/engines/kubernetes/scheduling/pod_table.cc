#include "engines/kubernetes/scheduling/pod_table.h"

#include <utility>

#include "base/check.h"

namespace longhaul::engines::kubernetes {

using Account = PodRecord::Account;

PodRecord* PodTable::FindKey(const std::string& key) {
  const auto found = pods_.find(key);
  return found == pods_.end() ? nullptr : &found->second;
}

const PodRecord* PodTable::FindKey(const std::string& key) const {
  const auto found = pods_.find(key);
  return found == pods_.end() ? nullptr : &found->second;
}

PodRecord* PodTable::Find(const PodName& pod) {
  PodRecord* record = FindKey(pod.Key());
  return record != nullptr && record->name.uid == pod.uid ? record : nullptr;
}

PodRecord& PodTable::Add(const PodName& name) {
  const auto [at, is_new] = pods_.try_emplace(name.Key());
  CHECK(is_new) << name.Key() << " is known";
  at->second.name = name;
  at->second.key = at->first;
  return at->second;
}

void PodTable::Erase(const std::string& key) {
  const auto found = pods_.find(key);
  CHECK(found != pods_.end()) << key << " is not known";
  SetAccount(found->second, Account::kNone);
  pods_.erase(found);
}

void PodTable::SetAccount(PodRecord& record, Account account) {
  const std::string& node = record.is_bound() ? record.node : record.planned;
  const std::string now_on = account == Account::kNone ? std::string() : node;
  if (record.account == account && record.counted_on == now_on) return;
  if (record.account == Account::kOthers) {
    const auto load = loads_.find(record.counted_on);
    AddTimes(record.needs, -1, load->second);
    if (load->second == Amounts()) loads_.erase(load);
  } else if (record.account == Account::kTask) {
    const auto tasks = tasks_on_.find(record.counted_on);
    tasks->second.erase(record.key);
    if (tasks->second.empty()) tasks_on_.erase(tasks);
  }
  // Others may have been waiting for devices that a task had.
  if (record.account != Account::kNone) changed_.insert(record.counted_on);
  record.account = account;
  record.counted_on = now_on;
  if (account == Account::kOthers) {
    AddTimes(record.needs, 1, loads_[now_on]);
    changed_.insert(now_on);
  } else if (account == Account::kTask) {
    tasks_on_[now_on].insert(record.key);
  }
}

Amounts PodTable::LoadOf(const std::string& node) const {
  const auto load = loads_.find(node);
  return load == loads_.end() ? Amounts() : load->second;
}

Amounts PodTable::UseOf(const std::string& node) const {
  Amounts use = LoadOf(node);
  const auto tasks = tasks_on_.find(node);
  if (tasks == tasks_on_.end()) return use;
  for (const std::string& pod : tasks->second) AddTimes(pods_.at(pod).needs, 1, use);
  return use;
}

std::set<std::string> PodTable::TasksOn(const std::string& node) const {
  const auto tasks = tasks_on_.find(node);
  return tasks == tasks_on_.end() ? std::set<std::string>() : tasks->second;
}

std::set<std::string> PodTable::TakeChangedNodes() { return std::exchange(changed_, {}); }

Status PodTable::Check() const {
  std::unordered_map<std::string, Amounts> loads;
  for (const auto& [key, record] : pods_) {
    if (record.account == Account::kOthers) AddTimes(record.needs, 1, loads[record.counted_on]);
  }
  if (loads == loads_) return {};
  return InternalError("the loads of the nodes are not the sums of their pods");
}

}  // namespace longhaul::engines::kubernetes
