// What a framework and its release add to the card's own time.
//
// One set of constants a framework family, and a factor for a release where published runs of
// several releases of one configuration differ (5.5 % median between successive releases). Nothing
// here knows a model, a cluster or a source. Leaves out what a user can measure: `calibrate --fit`
// replaces `compute_factor`.
#pragma once

#include <string_view>

#include "planner/time/device_matrix.h"
#include "spec/training.h"

namespace longhaul::planner {

struct SoftwareStack {
  double compute_factor = 1;    // device time of all kernels
  double launch_s = 6e-6;       // host time of one kernel through the framework
  double step_fixed_s = 0.02;   // host work a step: data, optimizer's launches, logging
  double tensor_hidden = 0.80;  // share of tensor collectives hidden where split products overlap
  double tensor_backward_hidden = 0.53;  // of those beside a weight gradient without split products
  double gradient_hidden = 0.9;  // share of the last backward that gradient traffic hides under
  double shard_hidden = 0.85;    // likewise of a layer under FSDP
  double overlap_tax = 0.138;    // compute slows by this share while a collective runs
  double straggle = 0.006;       // sigma of a node's step
  // Where the expert group leaves its island: share of its traffic hidden under the other half of
  // the batch, which recipes switch on there.
  double expert_hidden_across = 0;
  // Expert groups step over the tensor group: no expert tensor size of their own.
  bool experts_over_data = false;
  double chunk_message_s = 0;        // of an interleaved schedule's message, beyond its bytes
  bool merges_expert_copies = true;  // a token crosses to a node once
  bool overlaps_sends = true;        // interleaved schedules hide sends under compute
  bool splits_sends = true;          // each tensor rank sends its share of an activation
  double grouped_factor = 1;  // of the card's rate of grouped products, at most to its tiles'
  double permute_share = 1;   // of the card's rate; above 1 where dispatch kernels permute too
  bool fused_kernels = true;  // norms, activations and rotary are single kernels
  // Of the links' bandwidth, what parameters gathered layer by layer reach.
  double shard_bandwidth_share = 1;
  AttentionKernels attention = AttentionKernels::kNative;
};

SoftwareStack StackFor(std::string_view framework, std::string_view release);
// The same with the user's own fitted factor.
SoftwareStack StackOf(const spec::Software& software);

}  // namespace longhaul::planner
