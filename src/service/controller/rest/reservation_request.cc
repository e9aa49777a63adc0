#include "service/controller/rest/reservation_request.h"

#include <array>
#include <string>
#include <utility>

#include "base/instant_text.h"
#include "base/text.h"
#include "service/controller/rest/request_body.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;
using Names = google::protobuf::RepeatedPtrField<std::string>;

constexpr size_t kMostNames = 65'536;                             // of nodes, as in a topology
constexpr Duration kLongestTime = std::chrono::hours(24 * 3660);  // so that no sum overflows

Result<Instant> ParseTime(const char* key, const std::string& text, Instant now) {
  if (text == "now") return now;
  if (text.starts_with('+')) {
    const Result<Duration> later = ParseDuration(std::string_view(text).substr(1));
    if (later.ok() && *later >= Duration(0) && *later <= kLongestTime) return now + *later;
  } else if (const Result<Instant> at = ParseInstant(text); at.ok()) {
    return at;
  }
  return InvalidArgument("\"" + std::string(key) + "\": '" + Printable(text, 40) +
                         "' is not a time: write now, a time from now (+2h), a date (2026-01-31) "
                         "or an instant in UTC (2026-01-31T08:00:00Z)");
}

Status TakeNames(const Json& json, const char* key, Names& names) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return {};
  const Status refused = InvalidArgument("\"" + std::string(key) + "\" must be a list of at most " +
                                         WithThousands(kMostNames) + " names");
  if (!found->is_array() || found->size() > kMostNames) return refused;
  for (const Json& name : *found) {
    if (!name.is_string()) return refused;
    const std::string& text = name.get_ref<const std::string&>();
    if (text.empty() || text.size() > kLongestText || text.find('\0') != std::string::npos) {
      return InvalidArgument("'" + Printable(text, 40) + "' in \"" + std::string(key) +
                             "\" is not a name");
    }
    names.Add(std::string(text));
  }
  return {};
}

// Exactly one of the two forms: with both, they could contradict each other.
Status TakeEnd(const Json& json, Instant from, Instant now, proto::NodeReservation& wanted) {
  std::string until;
  std::string length;
  RETURN_IF_ERROR(TakeText(json, "until", until));
  RETURN_IF_ERROR(TakeText(json, "for", length));
  if (until.empty() == length.empty()) {
    return InvalidArgument("a reservation needs one of \"until\" and \"for\", its end");
  }
  if (!until.empty()) {
    ASSIGN_OR_RETURN(const Instant at, ParseTime("until", until, now));
    wanted.set_until_ns(ToNanoseconds(at));
    return {};
  }
  const Result<Duration> lasts = ParseDuration(length);
  if (!lasts.ok() || *lasts <= Duration(0) || *lasts > kLongestTime) {
    return InvalidArgument("\"for\": '" + Printable(length, 40) +
                           "' is not a time such as 4h, above zero and at most 366d");
  }
  wanted.set_until_ns(ToNanoseconds(from + *lasts));
  return {};
}

}  // namespace

Result<proto::NodeReservation> ParseReservation(std::string_view body, Instant now) {
  static constexpr std::array<std::string_view, 8> kKeys = {"name", "nodes",  "from",  "until",
                                                            "for",  "queues", "users", "reason"};
  ASSIGN_OR_RETURN(const Json json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  proto::NodeReservation wanted;
  RETURN_IF_ERROR(TakeText(json, "name", *wanted.mutable_name()));
  if (wanted.name().empty()) return InvalidArgument("\"name\" of the reservation is missing");
  RETURN_IF_ERROR(TakeText(json, "reason", *wanted.mutable_reason()));
  RETURN_IF_ERROR(TakeNames(json, "nodes", *wanted.mutable_nodes()));
  RETURN_IF_ERROR(TakeNames(json, "queues", *wanted.mutable_queues()));
  RETURN_IF_ERROR(TakeNames(json, "users", *wanted.mutable_users()));
  std::string begin = "now";
  RETURN_IF_ERROR(TakeText(json, "from", begin));
  ASSIGN_OR_RETURN(const Instant from, ParseTime("from", begin, now));
  wanted.set_from_ns(ToNanoseconds(from));
  RETURN_IF_ERROR(TakeEnd(json, from, now, wanted));
  if (wanted.until_ns() > ToNanoseconds(now)) return wanted;
  return InvalidArgument("reservation " + Printable(wanted.name(), 63) + ": it ends at " +
                         ToString(InstantFromNanoseconds(wanted.until_ns())) +
                         ", which is past; it is " + ToString(now));
}

Json ToJson(const proto::NodeReservation& reservation, Instant now) {
  const auto list = [](const Names& names) {
    Json json = Json::array();
    for (const std::string& name : names) json.push_back(name);
    return json;
  };
  return {{"name", reservation.name()},
          {"nodes", list(reservation.nodes())},
          {"from", ToString(InstantFromNanoseconds(reservation.from_ns()))},
          {"until", ToString(InstantFromNanoseconds(reservation.until_ns()))},
          {"open", reservation.from_ns() <= ToNanoseconds(now)},
          {"maintenance", reservation.queues().empty() && reservation.users().empty()},
          {"queues", list(reservation.queues())},
          {"users", list(reservation.users())},
          {"reason", reservation.reason()}};
}

}  // namespace longhaul::service
