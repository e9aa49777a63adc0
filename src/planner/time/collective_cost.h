// The time of a collective on a group of ranks, inside an NVLink island and across nodes.
//
// Inside an island, fitted to measured tables of NCCL (2.27-2.29, 2 to 8 GPUs):
//   t = latency(ranks) + (w + c sqrt(w)) / bandwidth,  w = bytes through one GPU's link
// where the root term represents the protocols of middle sizes. Across islands a ring passes all
// bytes through every node's NICs: with r members an island, r NICs work for the group at once, so
// the time is the slower of the inner and the outer link, plus a hop's latency for each step; a
// tree of log2(islands) hops where that is faster (NCCL's own choice, src/graph/tuning.cc, v2.30).
// An all-to-all is bound by one GPU's NIC for bytes that leave its island. Oversubscription divides
// the rate beyond the leaf. Leaves out contention between groups on one NIC and adaptive routing.
#pragma once

#include <cstdint>

#include "spec/cluster/device.h"

namespace longhaul::planner {

enum class Collective { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSend };

// Ranks of a group, and the distance of neighbours in the order in which ranks fill nodes.
struct Group {
  uint32_t ranks = 1;
  uint32_t stride = 1;
};

// The links of one GPU; rates in one direction.
struct Links {
  double island_bytes_per_s = 0;         // bus bandwidth of a ring inside an island
  double island_reduce_bytes_per_s = 0;  // of an all-reduce, in the switch where there is one
  double island_root_bytes = 0;          // c, square root of bytes
  double island_latency_s = 0;           // of two ranks
  double island_hop_s = 0;               // of each further rank
  uint32_t island = 8;                   // GPUs
  double network_bytes_per_s = 0;        // of a GPU's NIC, as NCCL reaches it
  double network_hop_s = 0;
  uint32_t leaf = 256;  // GPUs under one leaf switch of each rail
  double leaf_oversubscription = 1;
  // Each collective is as fast as with the best place of its group: for a search's bound. Experts'
  // groups count as neighbours.
  bool any_placement = false;
};

Links ShippedLinks(const spec::DeviceCluster& cluster);

// Ranks of the group that share an island.
uint32_t IslandMembers(const Links& links, Group group);

// Seconds of a collective over `bytes`: the whole buffer on one rank (the result of an all-gather,
// the input of a reduce-scatter or an all-to-all, the message of a send). Zero for one rank.
double CollectiveSeconds(const Links& links, Collective collective, double bytes, Group group);

}  // namespace longhaul::planner
