// The inverses of changes, newest last, so that an attempt can be taken back.
//
//   const Savepoint before = log.Save();
//   ... each change appends its inverse ...
//   log.RollBack(before, [&](const Inverse& inverse) { apply it });   // or log.Commit();
//
// Savepoints nest: rolling back to an outer one undoes the inner ones' changes too. Whoever has
// state of its own (queues' usage) keeps a log of its own beside the cluster's and saves, rolls
// back and commits both together.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace longhaul::scheduler {

enum class Savepoint : size_t {};

template <typename Inverse>
class UndoLog {
 public:
  Savepoint Save() const { return Savepoint{entries_.size()}; }
  void Append(Inverse inverse) { entries_.push_back(std::move(inverse)); }

  // Applies and forgets the inverses since `to`, newest first. `apply` must not append.
  template <typename Apply>
  void RollBack(Savepoint to, const Apply& apply) {
    const auto size = static_cast<size_t>(to);
    CHECK(size <= entries_.size()) << "a savepoint is used after its commit or roll-back";
    while (entries_.size() > size) {
      const Inverse inverse = std::move(entries_.back());
      entries_.pop_back();
      apply(inverse);
    }
  }

  const std::vector<Inverse>& entries() const { return entries_; }
  void Commit() { entries_.clear(); }

 private:
  std::vector<Inverse> entries_;
};

}  // namespace longhaul::scheduler
