#include "engines/kubernetes/protocol/objects/volume.h"

#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

Status ReadClaimSpec(std::string_view key, JsonValue value, const JsonPlace& place,
                     VolumeClaim* claim) {
  if (key == "volumeName") return ReadString(value, place, &claim->volume);
  if (key == "storageClassName") return ReadString(value, place, &claim->storage_class);
  if (key != "accessModes") return Status();
  return ForEachElement(value, place, [claim](JsonValue element, const JsonPlace& at) -> Status {
    ASSIGN_OR_RETURN(const std::string_view mode, TextOf(element, at));
    claim->one_pod = claim->one_pod || mode == "ReadWriteOncePod";
    return Status();
  });
}

Status ReadVolumeSpec(std::string_view key, JsonValue value, const JsonPlace& place,
                      Volume* volume) {
  if (key != "nodeAffinity") return Status();
  return ForEachField(
      value, place,
      [volume](std::string_view name, JsonValue field, const JsonPlace& at) -> Status {
        if (name != "required") return Status();
        ASSIGN_OR_RETURN(const bool null, IsNull(field, at));
        if (null) return Status();
        return ReadNodeSelector(field, at, &volume->node_terms.emplace());
      });
}

}  // namespace

Result<VolumeClaim> ReadVolumeClaim(JsonParser& parser, PaddedText json) {
  const JsonPlace place{nullptr, "claim"};
  VolumeClaim claim;
  const auto spec = [&claim](std::string_view key, JsonValue value, const JsonPlace& at) {
    return ReadClaimSpec(key, value, at, &claim);
  };
  const auto status = [&claim](std::string_view key, JsonValue value, const JsonPlace& at) {
    return key == "phase" ? ReadString(value, at, &claim.phase) : Status();
  };
  RETURN_IF_ERROR(
      ReadObject(parser, json, place,
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "metadata") return ReadMetaField(value, at, &claim.meta);
                   if (key == "spec") return ForEachField(value, at, spec);
                   if (key == "status") return ForEachField(value, at, status);
                   return Status();
                 }));
  RETURN_IF_ERROR(CheckMeta(claim.meta, place));
  if (claim.meta.namespace_name.empty()) return InvalidArgument("claim has no metadata.namespace");
  return claim;
}

Result<Volume> ReadVolume(JsonParser& parser, PaddedText json) {
  const JsonPlace place{nullptr, "volume"};
  Volume volume;
  const auto spec = [&volume](std::string_view key, JsonValue value, const JsonPlace& at) {
    return ReadVolumeSpec(key, value, at, &volume);
  };
  RETURN_IF_ERROR(
      ReadObject(parser, json, place,
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "metadata") return ReadMetaField(value, at, &volume.meta);
                   if (key == "spec") return ForEachField(value, at, spec);
                   return Status();
                 }));
  RETURN_IF_ERROR(CheckMeta(volume.meta, place));
  return volume;
}

Result<StorageClass> ReadStorageClass(JsonParser& parser, PaddedText json) {
  const JsonPlace place{nullptr, "storageClass"};
  StorageClass storage;
  RETURN_IF_ERROR(
      ReadObject(parser, json, place,
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "metadata") return ReadMetaField(value, at, &storage.meta);
                   if (key != "volumeBindingMode") return Status();
                   ASSIGN_OR_RETURN(const std::string_view mode, TextOf(value, at));
                   storage.waits_for_consumer = mode == "WaitForFirstConsumer";
                   return Status();
                 }));
  RETURN_IF_ERROR(CheckMeta(storage.meta, place));
  return storage;
}

}  // namespace longhaul::engines::kubernetes
