#include "profiler/generate/job_generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <span>

#include "base/check.h"
#include "base/hash.h"

namespace longhaul::profiler {
namespace {

constexpr int64_t kUnknown = INT64_MIN;
constexpr int64_t kStartNs = 1'000'000;      // the hosts begin here
constexpr int64_t kLaunchLatencyNs = 3'000;  // from the launch's end to the kernel's start
// Messages have a stream per direction and way, so that none waits for one of the other way.
enum Stream {
  kCompute = 7,
  kTensorStream = 20,
  kDataStream = 24,
  kSendStream = 28,
  kReceiveStream = 32,
  kSendBackStream = 36,
  kReceiveBackStream = 40,
  kAgainst = 16  // after those: of messages against the usual way
};

int64_t Ns(double us) { return std::llround(us * 1000); }

struct Meeting {
  int missing = 0;
  int64_t wire_ns = 0;
  int64_t last_arrival = 0;
  int64_t end = kUnknown;
  std::vector<std::pair<int, size_t>> kernels;  // rank, kernel
};

struct Operation {
  enum class Kind { kCompute, kExchange, kJoin, kStepBegin, kStepEnd } kind = Kind::kCompute;
  std::string name;
  int64_t duration_ns = 0;
  Phase phase = Phase::kForward;
  int group = -1;
  int stream = kCompute;
  bool blocks = false;
  const char* collective = nullptr;
  int64_t elements = 0;
  int source = -1;
  int destination = -1;
  int64_t host_ns = 0;   // its launch takes so much longer
  int64_t stays_ns = 0;  // of an exchange: this rank leaves it so much later than the others
};

class Generator {
 public:
  explicit Generator(const GeneratorOptions& o)
      : o_(o),
        ranks_(o.tensor * o.data * o.pipeline),
        shape_{o.schedule, o.pipeline, o.micro_batches, o.chunks} {
    CHECK(ranks_ > 0 && o.layers > 0 && o.micro_batches > 0 && o.steps > 0);
    job_.kernels.resize(static_cast<size_t>(ranks_));
    job_.steps.resize(static_cast<size_t>(ranks_));
    job_.input.resize(static_cast<size_t>(ranks_));
    job_.waits.resize(static_cast<size_t>(ranks_));
    state_.resize(static_cast<size_t>(ranks_));
    MakeGroups();
  }

  // Ranks advance in turn until none can. A rank blocks only on meetings, so the times do not
  // depend on the order of the turns.
  GeneratedJob Run() {
    for (int rank = 0; rank < ranks_; ++rank) Program(rank);
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < ranks_; ++rank) moved = Advance(rank) || moved;
    }
    int64_t first = kStartNs, last = 0;
    if (o_.warm_up > 0) first = ForgetWarmUp();
    for (int rank = 0; rank < ranks_; ++rank) {
      const State& state = StateOf(rank);
      CHECK(state.at == state.program.size()) << "the schedule of rank " << rank << " is stuck";
      for (const GeneratedKernel& kernel : job_.kernels[static_cast<size_t>(rank)]) {
        last = std::max(last, kernel.end_ns);
      }
    }
    job_.seconds = static_cast<double>(last - first) * 1e-9;
    return std::move(job_);
  }

 private:
  struct Posted {
    Meeting* meeting = nullptr;
    int64_t asked = 0;
    size_t kernel = 0;
    bool arrived = false;
    int64_t stays_ns = 0;
  };
  struct State {
    std::vector<Operation> program;
    size_t at = 0;
    int64_t device = kStartNs;  // when the compute stream is free
    int64_t host = kStartNs;
    std::map<int, std::deque<Posted>> streams;
    std::map<int, int64_t> free;  // of exchange streams
    std::vector<Meeting*> open;   // not joined yet
    Meeting* blocked = nullptr;
    int64_t stays_ns = 0;                         // after its end
    std::map<std::array<int, 3>, int64_t> calls;  // of a group and pair
  };

  // What the hosts did before the first step that is traced, and launched. Returns when the first
  // host began that one.
  int64_t ForgetWarmUp() {
    int64_t first = INT64_MAX;
    for (size_t rank = 0; rank < job_.steps.size(); ++rank) {
      auto& steps = job_.steps[rank];
      steps.erase(steps.begin(), steps.begin() + o_.warm_up);
      const int64_t begin = steps.front().begin_ns;
      first = std::min(first, begin);
      std::erase_if(job_.kernels[rank], [&](const auto& k) { return k.launch_ns < begin; });
      for (auto* spans : {&job_.input[rank], &job_.waits[rank]}) {
        std::erase_if(*spans, [&](const auto& span) { return span.end_ns <= begin; });
      }
    }
    return first;
  }

  State& StateOf(int rank) { return state_[static_cast<size_t>(rank)]; }
  int Tensor(int rank) const { return rank % o_.tensor; }
  int Data(int rank) const { return rank / o_.tensor % o_.data; }
  int Stage(int rank) const { return rank / (o_.tensor * o_.data); }
  int RankAt(int tensor, int data, int stage) const {
    return tensor + o_.tensor * (data + o_.data * stage);
  }

  int AddGroup(const char* description, std::vector<int> ranks) {
    const auto number = static_cast<int>(job_.groups.size());
    job_.groups.push_back({std::to_string(number),
                           o_.group_descriptions ? description : "undefined", std::move(ranks)});
    return number;
  }

  void MakeGroups() {
    tensor_group_.assign(static_cast<size_t>(ranks_), -1);
    data_group_ = pipeline_group_ = back_group_ = tensor_group_;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::vector<int> ranks;
      if (Tensor(rank) == 0 && o_.tensor > 1) {
        for (int t = 0; t < o_.tensor; ++t) ranks.push_back(RankAt(t, Data(rank), Stage(rank)));
        Assign(&tensor_group_, AddGroup("TENSOR_MODEL_PARALLEL_GROUP", ranks), ranks);
      }
      ranks.clear();
      if (Data(rank) == 0 && o_.data > 1) {
        for (int d = 0; d < o_.data; ++d) ranks.push_back(RankAt(Tensor(rank), d, Stage(rank)));
        Assign(&data_group_, AddGroup("DATA_PARALLEL_GROUP_WITH_CP", ranks), ranks);
      }
      ranks.clear();
      if (Stage(rank) == 0 && o_.pipeline > 1) {
        for (int s = 0; s < o_.pipeline; ++s) ranks.push_back(RankAt(Tensor(rank), Data(rank), s));
        Assign(&pipeline_group_, AddGroup("PIPELINE_MODEL_PARALLEL_GROUP", ranks), ranks);
        if (!TwoWays()) continue;
        Assign(&back_group_, AddGroup("PIPELINE_MODEL_PARALLEL_GROUP", ranks), ranks);
      }
    }
  }
  static void Assign(std::vector<int>* of, int group, const std::vector<int>& ranks) {
    for (const int rank : ranks) (*of)[static_cast<size_t>(rank)] = group;
  }

  double Factor(int rank) const {
    double factor = 1;
    if (rank == o_.slow_rank) factor *= o_.slow_factor;
    if (o_.slow_host >= 0 && rank / o_.ranks_per_host == o_.slow_host) factor *= o_.slow_factor;
    if (Stage(rank) == o_.heavy_stage) factor *= o_.heavy_factor;
    return factor;
  }

  void Compute(int rank, const char* name, double us, Phase phase) {
    Operation op;
    op.name = name;
    op.duration_ns = Ns(us * Factor(rank));
    op.phase = phase;
    StateOf(rank).program.push_back(std::move(op));
  }

  void Exchange(int rank, int group, const char* collective, double wire_us, int stream,
                bool blocks, Phase phase, int source = -1, int destination = -1) {
    Operation op;
    op.kind = Operation::Kind::kExchange;
    op.name = source >= 0 ? "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
                          : "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage"
                            "<4096ul>)";
    op.duration_ns = Ns(wire_us);
    op.phase = phase;
    op.group = group;
    op.stream = stream;
    op.blocks = blocks;
    op.collective = collective;
    op.elements = std::llround(wire_us * 10'000);
    op.source = source;
    op.destination = destination;
    StateOf(rank).program.push_back(std::move(op));
  }

  // A message along the line of chunks, to or from the one at distance `step`.
  void Neighbour(int rank, int chunk, int step, bool send, Phase phase) {
    ModelPlace place = PlaceOf(shape_, Stage(rank), chunk);
    place.at += step;
    const int stage = StageAt(shape_, place);
    if (stage == Stage(rank)) return;  // where ZB-V turns
    const int other = RankAt(Tensor(rank), Data(rank), stage);
    const bool forward = phase == Phase::kForward;
    int stream = send ? (forward ? kSendStream : kSendBackStream)
                      : (forward ? kReceiveStream : kReceiveBackStream);
    const bool downwards = send ? stage < Stage(rank) : stage > Stage(rank);
    if (TwoWays() && downwards == forward) stream += kAgainst;
    // A pair's messages match by their order, so each way has a group of its own.
    const auto& groups = TwoWays() && !forward ? back_group_ : pipeline_group_;
    Exchange(rank, groups[static_cast<size_t>(rank)], send ? "send" : "recv", o_.pipeline_wire_us,
             stream, !send, phase, send ? rank : other, send ? other : rank);
  }

  // Whether activations go to both earlier and later stages.
  bool TwoWays() const {
    return o_.schedule == Schedule::kZeroBubbleV || o_.schedule == Schedule::kDualPipe;
  }
  // Whether the chunk is at an end of the model.
  bool IsFirst(int rank, int chunk) const { return PlaceOf(shape_, Stage(rank), chunk).at == 0; }
  bool IsLast(int rank, int chunk) const {
    return PlaceOf(shape_, Stage(rank), chunk).at + 1 == LineLength(shape_);
  }
  int LayersOf(int chunk) const {
    if (o_.schedule == Schedule::kDualPipe) return o_.layers;
    return o_.layers * (chunk + 1) / o_.chunks - o_.layers * chunk / o_.chunks;
  }

  void Forward(int rank, int chunk) {
    for (int layer = 0; layer < LayersOf(chunk); ++layer) {
      Compute(rank, "void layer_norm_kernel<bf16>", o_.layer_us * 0.08, Phase::kForward);
      Compute(rank, "nvjet_tst_128x256_64x4_TNT", o_.layer_us * 0.57, Phase::kForward);
      Compute(rank, "flash_fwd_kernel<bf16>", o_.layer_us * 0.25, Phase::kForward);
      Compute(rank, "vectorized_elementwise_kernel<add>", o_.layer_us * 0.10, Phase::kForward);
      if (o_.tensor > 1) TensorSum(rank, Phase::kForward);
    }
  }

  void TensorSum(int rank, Phase phase) {
    Exchange(rank, tensor_group_[static_cast<size_t>(rank)], "allreduce", o_.tensor_wire_us,
             kTensorStream, true, phase);
  }

  void GradientSum(int rank, Phase phase) {
    Exchange(rank, data_group_[static_cast<size_t>(rank)], "allreduce", o_.data_wire_us,
             kDataStream, false, phase);
  }

  // The products of the weights' gradients are as many as those of the inputs'.
  void Backward(int rank, const Pass& pass) {
    const bool whole = pass.kind == Pass::Kind::kBackward;
    const double inputs_us = o_.layer_us * o_.inputs_share;
    for (int layer = 0; layer < LayersOf(pass.chunk); ++layer) {
      Compute(rank, "flash_bwd_kernel<bf16>", inputs_us * 3 / 7, Phase::kBackward);
      Compute(rank, "nvjet_tst_256x128_64x4_NTN",
              inputs_us * 3 / 7 + (whole ? o_.layer_us * o_.weights_share : 0), Phase::kBackward);
      Compute(rank, "layer_norm_backward_kernel<bf16>", inputs_us / 7, Phase::kBackward);
      if (o_.tensor > 1) TensorSum(rank, Phase::kBackward);
      if (pass.last && o_.data > 1) GradientSum(rank, Phase::kBackward);
    }
  }

  void Weights(int rank, const Pass& pass) {
    for (int layer = 0; layer < LayersOf(pass.chunk); ++layer) {
      Compute(rank, "nvjet_tst_256x128_64x4_TTN", o_.layer_us * o_.weights_share, Phase::kWeights);
      if (pass.last && o_.data > 1) GradientSum(rank, Phase::kWeights);
    }
  }

  void Receive(int rank, const Pass& pass) {
    if (pass.kind == Pass::Kind::kForward) {
      if (!IsFirst(rank, pass.chunk)) Neighbour(rank, pass.chunk, -1, false, Phase::kForward);
    } else if (pass.kind != Pass::Kind::kWeights && !IsLast(rank, pass.chunk)) {
      Neighbour(rank, pass.chunk, 1, false, Phase::kBackward);
    }
  }

  void Work(int rank, const Pass& pass) {
    if (pass.kind == Pass::Kind::kForward) {
      Forward(rank, pass.chunk);
    } else if (pass.kind == Pass::Kind::kWeights) {
      Weights(rank, pass);
    } else {
      Backward(rank, pass);
    }
  }

  void Send(int rank, const Pass& pass) {
    if (pass.kind == Pass::Kind::kForward) {
      if (!IsLast(rank, pass.chunk)) Neighbour(rank, pass.chunk, 1, true, Phase::kForward);
    } else if (pass.kind != Pass::Kind::kWeights && !IsFirst(rank, pass.chunk)) {
      Neighbour(rank, pass.chunk, -1, true, Phase::kBackward);
    }
  }

  void Program(int rank) {
    std::vector<Operation>& program = StateOf(rank).program;
    const auto mark = [&program](Operation::Kind kind) { program.emplace_back().kind = kind; };
    const std::vector<Pass> passes = PassesOf(shape_, Stage(rank));
    for (int step = -o_.warm_up; step < o_.steps; ++step) {
      const size_t first = program.size();
      mark(Operation::Kind::kStepBegin);
      for (size_t i = 0; i < passes.size();) {
        const auto together = std::span(passes).subspan(i, passes[i].joined ? 2 : 1);
        for (const Pass& pass : together) Receive(rank, pass);
        for (const Pass& pass : together) Work(rank, pass);
        for (const Pass& pass : together) Send(rank, pass);
        i += together.size();
      }
      mark(Operation::Kind::kJoin);
      Compute(rank, "multi_tensor_apply_kernel<adam>", o_.layer_us * 0.5, Phase::kOptimizer);
      mark(Operation::Kind::kStepEnd);
      if (rank == o_.stall_rank && step == o_.stall_step) Stall(&program, first);
    }
  }

  // Puts the stall on the operation of its kind that is nearest to its place in the step.
  void Stall(std::vector<Operation>* program, size_t first) const {
    const auto length = static_cast<double>(program->size() - first);
    const auto place = first + static_cast<size_t>(o_.stall_at * (length - 1));
    const auto fits = [&](const Operation& op) {
      if (o_.stall == GeneratorOptions::Stall::kCall) {
        return op.kind == Operation::Kind::kExchange && op.stream == kTensorStream;
      }
      return op.kind == Operation::Kind::kCompute && op.phase != Phase::kOptimizer;
    };
    size_t at = place;
    while (at < program->size() && !fits((*program)[at])) ++at;
    if (at == program->size()) {
      for (at = place; at > first && !fits((*program)[at]);) --at;
    }
    CHECK(fits((*program)[at])) << "nothing can stall";
    Operation& op = (*program)[at];
    if (o_.stall == GeneratorOptions::Stall::kKernel) op.duration_ns += Ns(o_.stall_us);
    if (o_.stall == GeneratorOptions::Stall::kHost) op.host_ns = Ns(o_.stall_us);
    if (o_.stall == GeneratorOptions::Stall::kCall) op.stays_ns = Ns(o_.stall_us);
  }

  // Runs a rank until it must wait for others; true if it got anywhere.
  bool Advance(int rank) {
    State& state = StateOf(rank);
    bool moved = false;
    while (state.at < state.program.size()) {
      if (state.blocked != nullptr) {
        if (state.blocked->end == kUnknown) return moved;
        state.device = std::max(state.device, state.blocked->end + state.stays_ns);
        state.blocked = nullptr;
      }
      const Operation& op = state.program[state.at];
      if (op.kind == Operation::Kind::kJoin) {
        for (const Meeting* meeting : state.open) {
          if (meeting->end == kUnknown) return moved;
          state.device = std::max(state.device, meeting->end);
        }
        state.open.clear();
      } else {
        Do(rank, op);
      }
      ++state.at;
      moved = true;
    }
    return moved;
  }

  void Do(int rank, const Operation& op) {
    State& state = StateOf(rank);
    auto& steps = job_.steps[static_cast<size_t>(rank)];
    if (op.kind == Operation::Kind::kStepBegin) {
      const int64_t begin = state.host;
      if (o_.input_us > 0 && rank == 0) {
        state.host += Ns(o_.input_us);
        job_.input[0].push_back(
            {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, state.host});
      }
      steps.push_back({"ProfilerStep#" + std::to_string(steps.size() + 3), begin, begin});
      return;
    }
    if (op.kind == Operation::Kind::kStepEnd) {
      // The host reads the loss: it waits for the device.
      const int64_t asked = state.host;
      state.host = std::max(state.host, state.device) + 1'000;
      job_.waits[static_cast<size_t>(rank)].push_back({"cudaStreamSynchronize", asked, state.host});
      state.host += 1'000;
      steps.back().end_ns = state.host;
      return;
    }
    GeneratedKernel kernel;
    kernel.name = op.name;
    kernel.stream = op.stream;
    kernel.phase = op.phase;
    kernel.launch_ns = state.host;
    state.host += Ns(rank == o_.late_rank ? o_.late_us : o_.launch_us) + op.host_ns;
    kernel.launch_end_ns = state.host - 500;
    const int64_t ready = std::max(state.device, kernel.launch_end_ns + kLaunchLatencyNs);
    auto& kernels = job_.kernels[static_cast<size_t>(rank)];
    if (op.kind == Operation::Kind::kCompute) {
      kernel.begin_ns = ready;
      kernel.end_ns = state.device = ready + op.duration_ns;
      kernels.push_back(std::move(kernel));
      return;
    }
    kernel.group = op.group;
    kernel.collective = op.collective;
    kernel.elements = op.elements;
    kernel.source = op.source;
    kernel.destination = op.destination;
    kernel.sequence = state.calls[{op.group, op.source, op.destination}]++;
    Meeting* meeting = Find(op, kernel.sequence);
    const size_t place = kernels.size();
    meeting->kernels.emplace_back(rank, place);
    kernels.push_back(std::move(kernel));
    state.streams[op.stream].push_back({meeting, ready, place, false, op.stays_ns});
    state.open.push_back(meeting);
    if (op.blocks) {
      state.blocked = meeting;
      state.stays_ns = op.stays_ns;
    }
    Pump(rank, op.stream);
  }

  // The first member that comes creates the meeting and fixes its duration. References into a
  // std::map stay valid.
  Meeting* Find(const Operation& op, int64_t sequence) {
    Meeting& meeting = meetings_[{op.group, op.source, op.destination, sequence}];
    if (meeting.missing == 0 && meeting.kernels.empty()) {
      meeting.missing =
          op.source >= 0
              ? 2
              : static_cast<int>(job_.groups[static_cast<size_t>(op.group)].ranks.size());
      meeting.wire_ns = op.duration_ns;
      const bool slow = op.source >= 0 && op.source == o_.slow_link_rank &&
                        Stage(op.destination) > Stage(op.source);
      if (slow) meeting.wire_ns = Ns(o_.pipeline_wire_us * o_.link_factor);
    }
    return &meeting;
  }

  // The first call of a stream arrives; when it is the last to, all members' calls end.
  void Pump(int rank, int stream) {
    State& state = StateOf(rank);
    auto& queue = state.streams[stream];
    if (queue.empty() || queue.front().arrived) return;
    Posted& head = queue.front();
    head.arrived = true;
    int64_t& free = state.free[stream];
    const int64_t arrival = std::max(head.asked, free);
    job_.kernels[static_cast<size_t>(rank)][head.kernel].begin_ns = arrival;
    Meeting& meeting = *head.meeting;
    meeting.last_arrival = std::max(meeting.last_arrival, arrival);
    if (--meeting.missing > 0) return;
    meeting.end = meeting.last_arrival + meeting.wire_ns;
    for (const auto& [member, place] : meeting.kernels) {
      GeneratedKernel& kernel = job_.kernels[static_cast<size_t>(member)][place];
      // Members leave within a microsecond of each other.
      State& other = StateOf(member);
      auto& waiting = other.streams[kernel.stream];
      const int64_t end = meeting.end + waiting.front().stays_ns;
      kernel.end_ns =
          end - static_cast<int64_t>(
                    Hash64(std::string_view("leave"), static_cast<uint64_t>(meeting.end + member)) %
                    1000);
      other.free[kernel.stream] = end;
      waiting.pop_front();
    }
    // The next calls of the streams may arrive now, and may end further meetings.
    for (const auto& [member, place] : meeting.kernels) {
      Pump(member, job_.kernels[static_cast<size_t>(member)][place].stream);
    }
  }

  const GeneratorOptions& o_;
  const int ranks_;
  const PipelineShape shape_;
  GeneratedJob job_;
  std::vector<State> state_;
  std::map<std::array<int64_t, 4>, Meeting> meetings_;
  std::vector<int> tensor_group_, data_group_, pipeline_group_, back_group_;
};

}  // namespace

GeneratedJob Generate(const GeneratorOptions& options) { return Generator(options).Run(); }

}  // namespace longhaul::profiler
