#include "engines/kubernetes/protocol/objects/lease.h"

#include <tuple>

#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

// Stores nothing for a null.
Status ReadAtLeast(int32_t least, JsonValue value, const JsonPlace& place,
                   std::optional<int32_t>* out) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  if (null) return Status();
  int32_t number = 0;
  RETURN_IF_ERROR(ReadInt32(value, place, &number));
  if (number < least) {
    return InvalidArgument(place.Text() + " is " + std::to_string(number) + ", expected at least " +
                           std::to_string(least));
  }
  *out = number;
  return Status();
}

Status ReadLeaseSpecField(std::string_view key, JsonValue value, const JsonPlace& place,
                          Lease* lease) {
  if (key == "holderIdentity") return ReadString(value, place, &lease->holder);
  if (key == "acquireTime") return ReadString(value, place, &lease->acquire_time);
  if (key == "renewTime") return ReadString(value, place, &lease->renew_time);
  if (key == "leaseTransitions") return ReadAtLeast(0, value, place, &lease->transitions);
  if (key != "leaseDurationSeconds") return Status();
  std::optional<int32_t> seconds;
  RETURN_IF_ERROR(ReadAtLeast(1, value, place, &seconds));
  if (seconds) lease->duration = std::chrono::seconds(*seconds);
  return Status();
}

}  // namespace

bool Lease::SameRecord(const Lease& other) const {
  const auto fields = [](const Lease& lease) {
    return std::tie(lease.meta.uid, lease.holder, lease.duration, lease.acquire_time,
                    lease.renew_time, lease.transitions);
  };
  return fields(*this) == fields(other);
}

Result<Lease> ReadLease(JsonParser& parser, PaddedText json) {
  const JsonPlace place{nullptr, "lease"};
  Lease lease;
  const auto spec = [&lease](std::string_view key, JsonValue value, const JsonPlace& at) {
    return ReadLeaseSpecField(key, value, at, &lease);
  };
  RETURN_IF_ERROR(
      ReadObject(parser, json, place,
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "metadata") return ReadMetaField(value, at, &lease.meta);
                   if (key == "spec") return ForEachField(value, at, spec);
                   return Status();
                 }));
  RETURN_IF_ERROR(CheckMeta(lease.meta, place));
  return lease;
}

}  // namespace longhaul::engines::kubernetes
