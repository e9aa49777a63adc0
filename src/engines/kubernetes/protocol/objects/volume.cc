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

Status ReadTopologyLabel(JsonValue value, const JsonPlace& place, NodeSelectorTerm* term) {
  NodeRequirement& label = term->match_labels.emplace_back();
  label.comparison = "In";
  return ForEachField(
      value, place, [&label](std::string_view key, JsonValue field, const JsonPlace& at) {
        if (key == "key") return ReadString(field, at, &label.key);
        if (key != "values") return Status();
        return ForEachElement(field, at, [&label](JsonValue text, const JsonPlace& text_at) {
          return ReadString(text, text_at, &label.values.emplace_back());
        });
      });
}

// One element of allowedTopologies.
Status ReadTopology(JsonValue value, const JsonPlace& place, NodeSelectorTerm* term) {
  return ForEachField(
      value, place, [term](std::string_view key, JsonValue field, const JsonPlace& at) {
        if (key != "matchLabelExpressions") return Status();
        return ForEachElement(field, at, [term](JsonValue label, const JsonPlace& label_at) {
          return ReadTopologyLabel(label, label_at, term);
        });
      });
}

Status ReadStorageField(std::string_view key, JsonValue value, const JsonPlace& place,
                        StorageClass* storage) {
  if (key == "metadata") return ReadMetaField(value, place, &storage->meta);
  if (key == "provisioner") return ReadString(value, place, &storage->provisioner);
  if (key == "allowedTopologies") {
    return ForEachElement(value, place, [storage](JsonValue element, const JsonPlace& at) {
      return ReadTopology(element, at, &storage->topologies.emplace_back());
    });
  }
  if (key != "volumeBindingMode") return Status();
  ASSIGN_OR_RETURN(const std::string_view mode, TextOf(value, place));
  storage->waits_for_consumer = mode == "WaitForFirstConsumer";
  return Status();
}

}  // namespace

std::string_view VolumeClaim::selected_node() const {
  const auto at = meta.annotations.find(kSelectedNodeAnnotation);
  return at == meta.annotations.end() ? std::string_view() : std::string_view(at->second);
}

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
  RETURN_IF_ERROR(ReadObject(
      parser, json, place, [&storage](std::string_view key, JsonValue value, const JsonPlace& at) {
        return ReadStorageField(key, value, at, &storage);
      }));
  RETURN_IF_ERROR(CheckMeta(storage.meta, place));
  return storage;
}

}  // namespace longhaul::engines::kubernetes
