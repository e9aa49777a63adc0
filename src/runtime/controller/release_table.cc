#include "runtime/controller/release_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::runtime::controller {

std::optional<ElementName> SplitElementId(const std::string& id) {
  const size_t line = id.rfind('_');
  if (line == std::string::npos) return std::nullopt;
  const auto index = ParseUint64(std::string_view(id).substr(line + 1));
  if (!index.ok() || *index > UINT32_MAX) return std::nullopt;
  ElementName name{id.substr(0, line), static_cast<uint32_t>(*index)};
  // "a_07" is not the element 7.
  if (ElementIdOf(name.array, name.index) != id) return std::nullopt;
  return name;
}

std::string ElementIdOf(const std::string& array, uint32_t index) {
  return array + "_" + std::to_string(index);
}

// The result must not name an array or dependencies: the unit holds both for all its elements, and
// the scheduler considers each element as a job of its own.
proto::Job ElementOf(const proto::Job& array, uint32_t index, const std::string* value) {
  proto::Job job = array;
  job.set_id(ElementIdOf(array.id(), index));
  if (!array.run_directory().empty()) {
    job.set_run_directory(array.run_directory() + "/" + std::to_string(index));
  }
  job.clear_array();
  job.clear_after();
  job.mutable_element()->set_array(array.id());
  job.mutable_element()->set_index(index);
  auto& environment = *job.mutable_workload()->mutable_environment();
  environment["LONGHAUL_ARRAY_ID"] = array.id();
  environment["LONGHAUL_ARRAY_INDEX"] = std::to_string(index);
  environment["LONGHAUL_ARRAY_COUNT"] = std::to_string(array.array().count());
  if (value != nullptr) environment["LONGHAUL_ARRAY_VALUE"] = *value;
  return job;
}

uint32_t ReleaseUnit::most() const {
  const uint32_t at_once = spec.array().at_once();
  return at_once == 0 ? count() : std::min(at_once, count());
}

std::string ReleaseUnit::ElementId(uint32_t index) const {
  return is_array() ? ElementIdOf(spec.id(), index) : spec.id();
}

// An outcome can change from "waits" to a final state only once, so a dependency that was found
// satisfied or impossible never has to be examined again. For an array, `failed` is true as soon as
// one element has failed: a dependant on success is then impossible before the array has ended,
// while a dependant on failure waits for the end.
DependencyState StateOf(proto::Dependencies::When when, const JobOutcome& outcome) {
  switch (when) {
    case proto::Dependencies::END:
      return outcome.ended ? DependencyState::kSatisfied : DependencyState::kWaits;
    case proto::Dependencies::FAILURE:
      if (!outcome.ended) return DependencyState::kWaits;
      return outcome.failed ? DependencyState::kSatisfied : DependencyState::kNever;
    default:
      if (outcome.failed) return DependencyState::kNever;
      return outcome.ended ? DependencyState::kSatisfied : DependencyState::kWaits;
  }
}

const char* VerbOf(proto::Dependencies::When when) {
  if (when == proto::Dependencies::END) return "to end";
  return when == proto::Dependencies::FAILURE ? "to fail" : "to succeed";
}

ReleaseUnit& ReleaseTable::Add(const proto::Job& spec) {
  const auto [found, fresh] = units_.try_emplace(spec.id());
  CHECK(fresh) << spec.id();
  ReleaseUnit& unit = found->second;
  unit.spec = spec;
  // The elements carry their values. A second copy here would double the memory of a large array.
  if (unit.is_array()) unit.spec.mutable_array()->clear_values();
  unit.after = spec.after();
  for (const std::string& job : spec.after().jobs()) dependants_[job].insert(spec.id());
  open_.insert(spec.id());
  affected_.insert(spec.id());
  return unit;
}

ReleaseUnit* ReleaseTable::Find(const std::string& id) {
  const auto found = units_.find(id);
  return found == units_.end() ? nullptr : &found->second;
}

const ReleaseUnit* ReleaseTable::Find(const std::string& id) const {
  const auto found = units_.find(id);
  return found == units_.end() ? nullptr : &found->second;
}

bool ReleaseTable::IsArray(const std::string& id) const {
  const ReleaseUnit* unit = Find(id);
  return unit != nullptr && unit->is_array();
}

// The id of an array itself is no job, so it has no unit here. An id that only looks like an
// element ("a_9" of an array with 5 elements) has none either.
const ReleaseUnit* ReleaseTable::UnitOf(const std::string& job) const {
  if (units_.empty()) return nullptr;
  const ReleaseUnit* unit = Find(job);
  if (unit != nullptr) return unit->is_array() ? nullptr : unit;
  const auto element = SplitElementId(job);
  if (!element) return nullptr;
  unit = Find(element->array);
  return unit != nullptr && unit->is_array() && element->index < unit->count() ? unit : nullptr;
}

bool ReleaseTable::IsHeld(const std::string& job) const {
  const ReleaseUnit* unit = UnitOf(job);
  if (unit == nullptr) return false;
  return (unit->is_array() ? SplitElementId(job)->index : 0) >= unit->next;
}

void ReleaseTable::NoteStarted(const std::string& job) {
  const ReleaseUnit* known = UnitOf(job);
  if (known == nullptr || !known->is_array()) return;
  ReleaseUnit& unit = units_.at(known->spec.id());
  if (unit.waiting.erase(SplitElementId(job)->index) > 0) affected_.insert(unit.spec.id());
}

void ReleaseTable::NoteEnded(const std::string& job, bool succeeded) {
  if (units_.empty()) return;
  // A unit that is not affected is never examined, so that the end of one job costs as much as it
  // has dependants, not as much as there are units.
  const auto tell = [this](const std::string& id) {
    const auto waiting = dependants_.find(id);
    if (waiting != dependants_.end())
      affected_.insert(waiting->second.begin(), waiting->second.end());
  };
  tell(job);
  const ReleaseUnit* known = UnitOf(job);
  if (known == nullptr) return;
  ReleaseUnit& unit = units_.at(known->spec.id());
  const uint32_t index = unit.is_array() ? SplitElementId(job)->index : 0;
  unit.offered.erase(index);
  unit.waiting.erase(index);
  ++unit.ended;
  if (succeeded) ++unit.succeeded;
  if (unit.over()) open_.erase(unit.spec.id());
  affected_.insert(unit.spec.id());
  if (unit.is_array()) tell(unit.spec.id());
}

void ReleaseTable::DropDependencies(ReleaseUnit& unit) {
  unit.after.clear_jobs();
  affected_.insert(unit.spec.id());
}

std::set<std::string> ReleaseTable::TakeAffected() { return std::exchange(affected_, {}); }

std::string ReleaseTable::NameOf(const std::string& id) const {
  return (IsArray(id) ? "array " : "job ") + id;
}

std::string ReleaseTable::WaitText(const std::string& job) const {
  if (!IsHeld(job)) return "";
  const ReleaseUnit& unit = *UnitOf(job);
  if (unit.after.jobs().empty() && unit.offered.size() < unit.most()) {
    return "waits behind other elements of array " + unit.spec.id() + ", such as " +
           unit.ElementId(*unit.waiting.begin());
  }
  if (unit.after.jobs().empty()) {
    return "waits until one of the " + std::to_string(unit.most()) + " elements of array " +
           unit.spec.id() + " that may have nodes at a time (array.at_once) has ended";
  }
  constexpr int kShown = 3;
  std::vector<std::string> names;
  for (int i = 0; i < std::min(kShown, unit.after.jobs_size()); ++i) {
    names.push_back(NameOf(unit.after.jobs(i)));
  }
  std::string text = "waits for " + Join(names, ", ");
  if (unit.after.jobs_size() > kShown) {
    text += " and " + std::to_string(unit.after.jobs_size() - kShown) + " more jobs";
  }
  return text + " " + VerbOf(unit.after.when());
}

Status ReleaseTable::Check() const {
  for (const std::string& id : open_) {
    const ReleaseUnit& unit = units_.at(id);
    const auto broken = [&](const std::string& what) {
      return InternalError("unit " + id + " " + what);
    };
    if (unit.offered.size() > unit.most()) return broken("has more elements offered than allowed");
    if (unit.next > unit.count() || unit.ended > unit.count() || unit.succeeded > unit.ended) {
      return broken("counts more elements than it has");
    }
    if (!unit.offered.empty() && *unit.offered.rbegin() >= unit.next) {
      return broken("has offered an element out of turn");
    }
    if (!unit.after.jobs().empty() && unit.next > 0) {
      return broken("was offered although it waits for other jobs");
    }
    if (unit.waiting.size() > unit.offered.size()) return broken("counts more waiting elements");
    if (unit.after.jobs().empty() && unit.has_room() && unit.next < unit.count() &&
        affected_.empty()) {
      return broken("holds an element back without a reason");
    }
  }
  return {};
}

std::string ReleaseTable::Fingerprint() const {
  std::string text;
  for (const auto& [id, unit] : units_) {
    text += id + ":" + std::to_string(unit.next) + "," + std::to_string(unit.ended) + "," +
            std::to_string(unit.succeeded) + "," + std::to_string(unit.offered.size()) + "," +
            std::to_string(unit.waiting.size()) + "," +
            std::to_string(ToNanoseconds(unit.eligible));
    for (const std::string& job : unit.after.jobs()) text += ">" + job;
    text += ";";
  }
  return text;
}

}  // namespace longhaul::runtime::controller
