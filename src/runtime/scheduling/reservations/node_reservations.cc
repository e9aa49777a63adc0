#include "runtime/scheduling/reservations/node_reservations.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"

namespace longhaul::runtime::scheduling {
namespace {

using proto::NodeReservation;

// Begins the taints of reservations. A job that names such a taint gains nothing: its request is
// restricted all the same.
constexpr std::string_view kTaintPrefix = "\x01reserved:";
constexpr size_t kMostMemberBytes = 253;  // a DNS name
constexpr size_t kMostUserBytes = 255;
// Between the clock that has read "now" and the controller's step lies some time.
constexpr Duration kLateRequest = std::chrono::minutes(1);

Instant FromOf(const NodeReservation& reservation) {
  return InstantFromNanoseconds(reservation.from_ns());
}
Instant UntilOf(const NodeReservation& reservation) {
  return InstantFromNanoseconds(reservation.until_ns());
}

bool Overlap(const NodeReservation& a, const NodeReservation& b) {
  return FromOf(a) < UntilOf(b) && FromOf(b) < UntilOf(a);
}

bool IsName(std::string_view name) {
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > kMostReservationNameBytes || !letter_or_digit(name[0])) {
    return false;
  }
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return letter_or_digit(c) || c == '-' || c == '_' || c == '.';
  });
}

Status CheckPeriod(const NodeReservation& wanted, Instant now) {
  const Instant from = FromOf(wanted);
  const Instant until = UntilOf(wanted);
  // Every comparison is of whole times: a difference could overflow.
  if (until <= from) {
    return InvalidArgument("it ends at " + ToString(until) + ", expected a time after its begin, " +
                           ToString(from));
  }
  if (until <= now) {
    return InvalidArgument("it ends at " + ToString(until) + ", which is past; it is " +
                           ToString(now));
  }
  if (from < now - kLateRequest) {
    return InvalidArgument("it begins at " + ToString(from) + ", which is past; write now");
  }
  if (from > now + kLongestReservation) {
    return InvalidArgument("it begins at " + ToString(from) + ", expected within 366 days");
  }
  if (until > from + kLongestReservation) {
    return InvalidArgument("it lasts for longer than 366 days, the most that is allowed");
  }
  return {};
}

Status CheckNames(const char* what, const google::protobuf::RepeatedPtrField<std::string>& names,
                  size_t most, size_t most_bytes) {
  if (static_cast<size_t>(names.size()) > most) {
    return InvalidArgument("it has " + WithThousands(names.size()) + " " + what + ", at most " +
                           WithThousands(static_cast<int64_t>(most)) + " are allowed");
  }
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty() || name.size() > most_bytes) {
      return InvalidArgument("'" + Printable(name, 40) + "' among its " + what + " has " +
                             WithThousands(static_cast<int64_t>(name.size())) +
                             " bytes, expected 1 to " + std::to_string(most_bytes));
    }
    if (seen.insert(name).second) continue;
    return InvalidArgument("'" + Printable(name, 40) + "' is named twice among its " + what);
  }
  return {};
}

// The name in a taint of a reservation; empty: it is another taint.
std::string_view ReservationOf(std::string_view taint) {
  return taint.starts_with(kTaintPrefix) ? taint.substr(kTaintPrefix.size()) : std::string_view();
}

}  // namespace

Status NodeReservations::Check(const NodeReservation& wanted, Instant now) const {
  if (!IsName(wanted.name())) {
    return InvalidArgument("'" + Printable(wanted.name(), 40) +
                           "' is not the name of a reservation: 1 to 63 letters, digits, '-', '_' "
                           "and '.', with a letter or a digit first");
  }
  const std::string context = "reservation " + wanted.name();
  if (all_.contains(wanted.name())) {
    return AlreadyExists(context + " exists: cancel it first, or use another name");
  }
  if (all_.size() >= kMostReservations) {
    return ResourceExhausted(context + " would be one of more than " +
                             std::to_string(kMostReservations) +
                             ", the most at a time: cancel one, or reserve more nodes with one");
  }
  if (const Status period = CheckPeriod(wanted, now); !period.ok()) {
    return period.WithContext(context);
  }
  if (wanted.nodes().empty()) return InvalidArgument(context + " names no node");
  for (const Status& status :
       {CheckNames("nodes", wanted.nodes(), kMostReservedNames, kMostMemberBytes),
        CheckNames("queues", wanted.queues(), kMostHolders, kMostReservationNameBytes),
        CheckNames("users", wanted.users(), kMostHolders, kMostUserBytes)}) {
    if (!status.ok()) return status.WithContext(context);
  }
  return {};
}

// Two reservations of one node must not overlap in time.
Status NodeReservations::CheckNodes(const NodeReservation& wanted,
                                    std::span<const NodeNames> nodes) const {
  const std::string context = "reservation " + wanted.name();
  std::set<std::string_view> known;
  for (const NodeNames& names : nodes) known.insert(names.begin(), names.end());
  for (const std::string& member : wanted.nodes()) {
    if (known.contains(member)) continue;
    const std::vector<std::string_view> all(known.begin(), known.end());
    const auto nearest = Nearest(member, all);
    return NotFound(context + ": there is no node or domain '" + Printable(member, 80) + "'" +
                    (nearest ? "; did you mean '" + Printable(*nearest, 80) + "'" : ""));
  }
  const std::set<std::string_view> members(wanted.nodes().begin(), wanted.nodes().end());
  for (const NodeNames& names : nodes) {
    const bool reserved = std::any_of(
        names.begin(), names.end(), [&](std::string_view name) { return members.contains(name); });
    if (!reserved) continue;
    for (const std::string& other : On(names)) {
      const NodeReservation& present = all_.at(other);
      if (!Overlap(wanted, present)) continue;
      return AlreadyExists(context + ": node " + Printable(names.front(), 80) + " is reserved as " +
                           other + " from " + ToString(FromOf(present)) + " until " +
                           ToString(UntilOf(present)) +
                           "; use another period or other nodes, or cancel " + other);
    }
  }
  return {};
}

Status NodeReservations::CheckCancel(const std::string& name) const {
  if (all_.contains(name)) return {};
  std::vector<std::string_view> known;
  for (const auto& [each, reservation] : all_) known.push_back(each);
  const auto nearest = Nearest(name, known);
  return NotFound("there is no reservation '" + Printable(name, 63) + "'" +
                  (nearest ? "; did you mean '" + std::string(*nearest) + "'" : ""));
}

void NodeReservations::Add(const NodeReservation& reservation) {
  all_[reservation.name()] = reservation;
  IndexMembers();
}

bool NodeReservations::Cancel(const std::string& name) {
  if (all_.erase(name) == 0) return false;
  open_.erase(name);
  IndexMembers();
  return true;
}

// A reservation can begin and end in one call, after a long time without events, and both changes
// are returned. They are sorted by their own times, so the order does not depend on when the call
// is made.
std::vector<NodeReservations::Change> NodeReservations::Advance(Instant now) {
  std::vector<Change> changes;
  for (const auto& [name, reservation] : all_) {
    if (FromOf(reservation) <= now && open_.insert(name).second) {
      changes.push_back({reservation, true});
    }
    if (UntilOf(reservation) <= now) changes.push_back({reservation, false});
  }
  if (changes.empty()) return changes;
  for (const Change& change : changes) {
    if (change.begins) continue;
    open_.erase(change.reservation.name());
    all_.erase(change.reservation.name());
  }
  IndexMembers();
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    const auto at = [](const Change& change) {
      return change.begins ? FromOf(change.reservation) : UntilOf(change.reservation);
    };
    return at(a) < at(b);
  });
  return changes;
}

std::optional<Instant> NodeReservations::NextChange() const {
  std::optional<Instant> next;
  for (const auto& [name, reservation] : all_) {
    const Instant at = IsOpen(name) ? UntilOf(reservation) : FromOf(reservation);
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

std::set<std::string> NodeReservations::On(const NodeNames& node) const {
  std::set<std::string> found;
  if (of_member_.empty()) return found;
  for (const std::string_view name : node) {
    const auto of = of_member_.find(name);
    if (of != of_member_.end()) found.insert(of->second.begin(), of->second.end());
  }
  return found;
}

// A reservation without queues and users admits nobody: a maintenance window.
bool NodeReservations::Admits(const NodeReservation& reservation, const Occupant& job) {
  const auto names = [](const auto& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  if (!job.user.empty() && names(reservation.users(), job.user)) return true;
  return std::any_of(job.queues.begin(), job.queues.end(),
                     [&](const std::string& queue) { return names(reservation.queues(), queue); });
}

// Before a reservation begins, a job may use its nodes if it ends early enough. After that, only
// holders may, and a running job that cannot be stopped.
Tolerance NodeReservations::ToleranceOf(const Occupant& job, Instant now) const {
  Tolerance tolerance;
  for (const auto& [name, reservation] : all_) {
    const Instant from = FromOf(reservation);
    bool tolerates = Admits(reservation, job);
    if (!tolerates && from <= now) {
      tolerates = job.stays && job.on.contains(name);
    } else if (!tolerates) {
      tolerates = (job.placed && job.on.contains(name)) || (job.ends && *job.ends <= from);
      if (tolerates && !job.placed) {
        // It would end too late if it waited for a moment longer than this.
        const Instant at = now + (from - *job.ends) + Duration(1);
        tolerance.until = tolerance.until ? std::min(*tolerance.until, at) : at;
      }
    }
    if (tolerates) tolerance.names.insert(name);
  }
  return tolerance;
}

std::string NodeReservations::TextFor(const std::set<std::string>& tolerated,
                                      std::span<const NodeNames> nodes) const {
  std::map<std::string, int64_t> counts;
  for (const NodeNames& names : nodes) {
    for (const std::string& name : On(names)) ++counts[name];
  }
  std::vector<std::string> parts;
  for (const auto& [name, reservation] : all_) {
    if (tolerated.contains(name)) continue;
    const int64_t count = counts[name];
    std::string text = WithThousands(count) +
                       (count == 1 ? " node is reserved as " : " nodes are reserved as ") + name;
    if (!IsOpen(name)) text += " from " + ToString(FromOf(reservation));
    parts.push_back(text + " until " + ToString(UntilOf(reservation)));
  }
  return Join(parts, ", ");
}

uint64_t NodeReservations::Fingerprint() const {
  uint64_t hash = 0;
  for (const auto& [name, reservation] : all_) {
    // The message has no map, so its bytes are a function of its fields.
    hash = Hash64(reservation.SerializeAsString() + (IsOpen(name) ? "open" : ""), hash);
  }
  return hash;
}

std::string NodeReservations::TaintOf(const std::string& reservation) {
  return std::string(kTaintPrefix) + reservation;
}

void NodeReservations::IndexMembers() {
  of_member_.clear();
  for (const auto& [name, reservation] : all_) {
    for (const std::string& member : reservation.nodes()) of_member_[member].push_back(name);
  }
}

void TolerateAll(const spec::Topology& topology, std::set<std::string>& tolerates) {
  for (const spec::NodeClass& node_class : topology.classes()) {
    for (const std::string& taint : node_class.taints) {
      if (!ReservationOf(taint).empty()) tolerates.insert(taint);
    }
  }
}

// The scheduler compares classes of nodes, so reservations become sets of classes.
void RestrictTo(const std::set<std::string>& tolerated, const spec::Topology& topology,
                scheduler::Shape& shape) {
  scheduler::ClassSet kept;
  bool all = true;
  for (size_t i = 0; i < topology.classes().size(); ++i) {
    const auto node_class = static_cast<uint16_t>(i);
    const auto& taints = topology.classes()[i].taints;
    const bool free = std::all_of(taints.begin(), taints.end(), [&](const std::string& taint) {
      const std::string_view name = ReservationOf(taint);
      return name.empty() || tolerated.contains(std::string(name));
    });
    if (free && shape.classes.contains(node_class)) kept.insert(node_class);
    all = all && free;
  }
  // Nothing is taken out: a request without a rule stays equal to those on other clusters.
  if (!all) shape.classes = kept;
}

}  // namespace longhaul::runtime::scheduling
