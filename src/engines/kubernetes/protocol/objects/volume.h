// What a scheduler requires of claims, volumes and storage classes.
//
// Left out: sizes, labels of zones on volumes, and how many volumes a driver attaches to a node.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/node_selector.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"

namespace longhaul::engines::kubernetes {

// A PersistentVolumeClaim.
struct VolumeClaim {
  ObjectMeta meta;
  std::string volume;         // spec.volumeName
  std::string storage_class;  // empty: none
  std::string phase;          // Pending, Bound, Lost
  bool one_pod = false;       // ReadWriteOncePod

  bool bound() const { return phase == "Bound" && !volume.empty(); }
  // The node for which its volume has to be made; empty: none is chosen yet.
  std::string_view selected_node() const;
};

// A PersistentVolume.
struct Volume {
  ObjectMeta meta;
  // One of the terms must hold; no value: every node.
  std::optional<std::vector<NodeSelectorTerm>> node_terms;
};

struct StorageClass {
  ObjectMeta meta;
  bool waits_for_consumer = false;  // volumeBindingMode: WaitForFirstConsumer
  std::string provisioner;
  // Where volumes are made (allowedTopologies): one of the terms holds; none: everywhere.
  std::vector<NodeSelectorTerm> topologies;

  // Whether volumes are made for claims. Otherwise somebody else makes them beforehand.
  bool makes_volumes() const { return provisioner != "kubernetes.io/no-provisioner"; }
};

// Each reads its object. kInvalidArgument, with the field's name, when a field has the wrong type,
// or name, namespace (of a claim) or resourceVersion is missing.
Result<VolumeClaim> ReadVolumeClaim(JsonParser& parser, PaddedText json);
Result<Volume> ReadVolume(JsonParser& parser, PaddedText json);
Result<StorageClass> ReadStorageClass(JsonParser& parser, PaddedText json);

}  // namespace longhaul::engines::kubernetes
