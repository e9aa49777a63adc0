// Times at which keys are due, one for each key.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/time.h"

namespace longhaul::engines::kubernetes {

class DueTimes {
 public:
  // Replaces the key's time; nothing: it is never due.
  void Set(const std::string& key, std::optional<Instant> at) {
    const auto known = times_.find(key);
    if (known != times_.end()) {
      if (at == known->second) return;
      order_.erase({known->second, key});
      times_.erase(known);
    }
    if (!at) return;
    times_.emplace(key, *at);
    order_.emplace(*at, key);
  }
  bool Has(const std::string& key) const { return times_.contains(key); }
  std::optional<Instant> Next() const {
    return order_.empty() ? std::nullopt : std::optional(order_.begin()->first);
  }
  // The next key that is due, which has no time then; nothing where none is.
  std::optional<std::string> Take(Instant now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    std::string key = order_.begin()->second;
    order_.erase(order_.begin());
    times_.erase(key);
    return key;
  }

 private:
  std::unordered_map<std::string, Instant> times_;  // never walked
  std::set<std::pair<Instant, std::string>> order_;
};

}  // namespace longhaul::engines::kubernetes
