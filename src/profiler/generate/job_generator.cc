#include "profiler/generate/job_generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>

#include "base/check.h"
#include "base/hash.h"
#include "profiler/generate/schedule.h"

namespace longhaul::profiler {
namespace {

constexpr int64_t kUnknown = INT64_MIN;
constexpr int64_t kStartNs = 1'000'000;      // the hosts begin here
constexpr int64_t kLaunchLatencyNs = 3'000;  // from the launch's end to the kernel's start
// Messages have a stream a direction and way, so that none waits behind one of the other way.
enum Stream {
  kCompute = 7,
  kTensorStream = 20,
  kDataStream = 24,
  kSendStream = 28,
  kReceiveStream = 32,
  kSendBackStream = 36,
  kReceiveBackStream = 40
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
  explicit Generator(const GeneratorOptions& o) : o_(o), ranks_(o.tensor * o.data * o.pipeline) {
    CHECK(ranks_ > 0 && o.layers > 0 && o.micro_batches > 0 && o.steps > 0);
    job_.kernels.resize(static_cast<size_t>(ranks_));
    job_.steps.resize(static_cast<size_t>(ranks_));
    job_.input.resize(static_cast<size_t>(ranks_));
    job_.waits.resize(static_cast<size_t>(ranks_));
    state_.resize(static_cast<size_t>(ranks_));
    MakeGroups();
  }

  GeneratedJob Run() {
    for (int rank = 0; rank < ranks_; ++rank) Program(rank);
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < ranks_; ++rank) moved = Advance(rank) || moved;
    }
    int64_t last = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const State& state = StateOf(rank);
      CHECK(state.at == state.program.size()) << "the schedule of rank " << rank << " is stuck";
      for (const GeneratedKernel& kernel : job_.kernels[static_cast<size_t>(rank)]) {
        last = std::max(last, kernel.end_ns);
      }
    }
    job_.seconds = static_cast<double>(last - kStartNs) * 1e-9;
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
    int64_t stays_ns = 0;                         // behind its end
    std::map<std::array<int, 3>, int64_t> calls;  // of a group and pair
  };

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
    data_group_ = pipeline_group_ = tensor_group_;
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

  // A message to or from the stage before or behind, round the ring of chunks.
  void Neighbour(int rank, int step, bool send, Phase phase) {
    const int stage = (Stage(rank) + step + o_.pipeline) % o_.pipeline;
    const int other = RankAt(Tensor(rank), Data(rank), stage);
    const bool forward = phase == Phase::kForward;
    const int stream = send ? (forward ? kSendStream : kSendBackStream)
                            : (forward ? kReceiveStream : kReceiveBackStream);
    Exchange(rank, pipeline_group_[static_cast<size_t>(rank)], send ? "send" : "recv",
             o_.pipeline_wire_us, stream, !send, phase, send ? rank : other, send ? other : rank);
  }

  // Whether the chunk is at an end of the model.
  bool IsFirst(int rank, int chunk) const { return Stage(rank) == 0 && chunk == 0; }
  bool IsLast(int rank, int chunk) const {
    return Stage(rank) + 1 == o_.pipeline && chunk + 1 == o_.chunks;
  }
  int LayersOf(int chunk) const {
    return o_.layers * (chunk + 1) / o_.chunks - o_.layers * chunk / o_.chunks;
  }

  void Forward(int rank, int chunk) {
    if (!IsFirst(rank, chunk)) Neighbour(rank, -1, false, Phase::kForward);
    for (int layer = 0; layer < LayersOf(chunk); ++layer) {
      Compute(rank, "void layer_norm_kernel<bf16>", o_.layer_us * 0.08, Phase::kForward);
      Compute(rank, "nvjet_tst_128x256_64x4_TNT", o_.layer_us * 0.57, Phase::kForward);
      Compute(rank, "flash_fwd_kernel<bf16>", o_.layer_us * 0.25, Phase::kForward);
      Compute(rank, "vectorized_elementwise_kernel<add>", o_.layer_us * 0.10, Phase::kForward);
      if (o_.tensor > 1) TensorSum(rank, Phase::kForward);
    }
    if (!IsLast(rank, chunk)) Neighbour(rank, 1, true, Phase::kForward);
  }

  void TensorSum(int rank, Phase phase) {
    Exchange(rank, tensor_group_[static_cast<size_t>(rank)], "allreduce", o_.tensor_wire_us,
             kTensorStream, true, phase);
  }

  void GradientSum(int rank, Phase phase) {
    Exchange(rank, data_group_[static_cast<size_t>(rank)], "allreduce", o_.data_wire_us,
             kDataStream, false, phase);
  }

  // Half of the backward products are the weights' gradients.
  void Backward(int rank, const Pass& pass) {
    if (!IsLast(rank, pass.chunk)) Neighbour(rank, 1, false, Phase::kBackward);
    for (int layer = 0; layer < LayersOf(pass.chunk); ++layer) {
      Compute(rank, "flash_bwd_kernel<bf16>", o_.layer_us * 0.6, Phase::kBackward);
      Compute(rank, "nvjet_tst_256x128_64x4_NTN", o_.layer_us * (o_.zero_bubble ? 0.6 : 1.2),
              Phase::kBackward);
      Compute(rank, "layer_norm_backward_kernel<bf16>", o_.layer_us * 0.2, Phase::kBackward);
      if (o_.tensor > 1) TensorSum(rank, Phase::kBackward);
      if (pass.last && !o_.zero_bubble && o_.data > 1) GradientSum(rank, Phase::kBackward);
    }
    if (!IsFirst(rank, pass.chunk)) Neighbour(rank, -1, true, Phase::kBackward);
  }

  void Weights(int rank, const Pass& pass) {
    for (int layer = 0; layer < LayersOf(pass.chunk); ++layer) {
      Compute(rank, "nvjet_tst_256x128_64x4_TTN", o_.layer_us * 0.6, Phase::kWeights);
      if (pass.last && o_.data > 1) GradientSum(rank, Phase::kWeights);
    }
  }

  void Program(int rank) {
    std::vector<Operation>& program = StateOf(rank).program;
    const auto mark = [&program](Operation::Kind kind) { program.emplace_back().kind = kind; };
    const std::vector<Pass> passes =
        PassesOf(o_.pipeline, Stage(rank), o_.micro_batches, o_.chunks, o_.zero_bubble);
    for (int step = 0; step < o_.steps; ++step) {
      const size_t first = program.size();
      mark(Operation::Kind::kStepBegin);
      for (const Pass& pass : passes) {
        switch (pass.kind) {
          case Pass::Kind::kForward:
            Forward(rank, pass.chunk);
            break;
          case Pass::Kind::kBackward:
            Backward(rank, pass);
            break;
          case Pass::Kind::kWeights:
            Weights(rank, pass);
            break;
        }
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
    for (const auto& [member, place] : meeting.kernels) {
      Pump(member, job_.kernels[static_cast<size_t>(member)][place].stream);
    }
  }

  const GeneratorOptions& o_;
  const int ranks_;
  GeneratedJob job_;
  std::vector<State> state_;
  std::map<std::array<int64_t, 4>, Meeting> meetings_;
  std::vector<int> tensor_group_, data_group_, pipeline_group_;
};

// Appends to the text as printf does.
template <typename... Args>
void Print(std::string* text, const char* format, Args... args) {
  char line[1024];
  const int size = std::snprintf(line, sizeof(line), format, args...);
  CHECK(size >= 0 && size < static_cast<int>(sizeof(line)));
  text->append(line, static_cast<size_t>(size));
}

class Writer {
 public:
  Writer(const GeneratedJob& job, const GeneratorOptions& o, int rank)
      : job_(job), o_(o), rank_(rank), host_(rank / o.ranks_per_host) {}

  std::string Text() {
    Head();
    const auto& kernels = job_.kernels[static_cast<size_t>(rank_)];
    for (size_t i = 0; i < kernels.size(); ++i) Kernel(kernels[i], i + 1);
    for (const auto& step : job_.steps[static_cast<size_t>(rank_)]) Span(step, "user_annotation");
    for (const auto& span : job_.input[static_cast<size_t>(rank_)]) Span(span, "user_annotation");
    for (const auto& wait : job_.waits[static_cast<size_t>(rank_)]) Span(wait, "cuda_runtime");
    Backwards();
    Print(&text_, "\n  ],\n  \"traceName\": \"generated\", \"displayTimeUnit\": \"ms\",\n");
    Print(&text_, "  \"baseTimeNanoseconds\": 1700000000000000000\n}\n");
    return std::move(text_);
  }

 private:
  // By the host's clock, in microseconds.
  double Time(int64_t ns) const {
    const double us = static_cast<double>(ns) * 1e-3;
    return us * (1 + host_ * o_.drift_ppm * 1e-6) + host_ * o_.skew_us + 1e6;
  }
  double Length(int64_t begin, int64_t end) const { return Time(end) - Time(begin); }

  void Head() {
    const int ranks = o_.tensor * o_.data * o_.pipeline;
    Print(&text_, "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n");
    for (int i = 0; i < o_.ranks_per_host; ++i) {
      Print(&text_, "    {\"id\": %d, \"name\": \"NVIDIA H100 80GB HBM3\"}%s\n", i,
            i + 1 < o_.ranks_per_host ? "," : "");
    }
    Print(&text_, "  ],\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, ", rank_);
    Print(&text_, "\"world_size\": %d, \"pg_count\": %zu},\n  \"traceEvents\": [", ranks,
          job_.groups.size());
  }

  void Next() {
    text_.append(first_ ? "\n  {\n" : ",\n  {\n");
    first_ = false;
  }

  void Span(const GeneratedSpan& span, const char* category) {
    Next();
    Print(&text_,
          "    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 4000, \"tid\": "
          "4000,\n    \"ts\": %.3f, \"dur\": %.3f\n  }",
          category, span.name.c_str(), Time(span.begin_ns), Length(span.begin_ns, span.end_ns));
  }

  // One annotation around each run of launches of the backward, and of the optimizer.
  void Backwards() {
    const auto& kernels = job_.kernels[static_cast<size_t>(rank_)];
    for (size_t i = 0; i < kernels.size();) {
      size_t j = i;
      while (j < kernels.size() && kernels[j].phase == kernels[i].phase) ++j;
      if (kernels[i].phase == Phase::kBackward || kernels[i].phase == Phase::kWeights) {
        Span({kernels[i].phase == Phase::kWeights ? "backward_weight" : "backward",
              kernels[i].launch_ns, kernels[j - 1].launch_end_ns},
             "user_annotation");
      } else if (kernels[i].phase == Phase::kOptimizer) {
        Span({"Optimizer.step#Adam.step", kernels[i].launch_ns, kernels[j - 1].launch_end_ns},
             "user_annotation");
      }
      i = j;
    }
  }

  void Kernel(const GeneratedKernel& k, size_t number) {
    Next();
    Print(&text_,
          "    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernelExC\", "
          "\"pid\": 4000, \"tid\": 4000,\n    \"ts\": %.3f, \"dur\": %.3f,\n    \"args\": "
          "{\n      \"External id\": %zu, \"cbid\": 430, \"correlation\": %zu\n    }\n  }",
          Time(k.launch_ns), Length(k.launch_ns, k.launch_end_ns), number, number);
    if (o_.flows) {
      Next();
      Print(&text_,
            "    \"ph\": \"s\", \"id\": %zu, \"pid\": 4000, \"tid\": 4000, \"ts\": %.3f,\n"
            "    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  }",
            number, Time(k.launch_ns));
    }
    Next();
    Print(&text_,
          "    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": %d, \"tid\": "
          "%d,\n    \"ts\": %.3f, \"dur\": %.3f,\n    \"args\": {\n      \"External id\": "
          "%zu, \"queued\": 0, \"device\": %d, \"context\": 1,\n      \"stream\": %d, "
          "\"correlation\": %zu,\n      \"registers per thread\": 96, \"shared memory\": "
          "0,\n      \"grid\": [132, 1, 1],\n      \"block\": [256, 1, 1]",
          k.name.c_str(), rank_ % o_.ranks_per_host, k.stream, Time(k.begin_ns),
          Length(k.begin_ns, k.end_ns), number, rank_ % o_.ranks_per_host, k.stream, number);
    if (k.group >= 0) Note(k);
    text_.append("\n    }\n  }");
  }

  void Note(const GeneratedKernel& k) {
    const GeneratedJob::Group& group = job_.groups[static_cast<size_t>(k.group)];
    std::string ranks;
    for (const int rank : group.ranks) {
      ranks += (ranks.empty() ? "[" : ", ") + std::to_string(rank);
    }
    Print(&text_,
          ",\n      \"Collective name\": \"%s\", \"In msg nelems\": %lld, \"Out msg nelems\": "
          "%lld, \"Group size\": %zu, \"dtype\": \"BFloat16\"",
          k.collective, static_cast<long long>(k.elements), static_cast<long long>(k.elements),
          group.ranks.size());
    text_ += ",\n      \"Process Group Name\": \"" + group.name +
             "\", \"Process Group Description\": \"" + group.description +
             "\", \"Process Group Ranks\": \"" + ranks + "]\"";
    if (o_.sequence_numbers) Print(&text_, ", \"Seq\": %lld", static_cast<long long>(k.sequence));
    if (k.source >= 0) {
      Print(&text_, ", \"Src Rank\": %d, \"Dst Rank\": %d", k.source, k.destination);
    }
  }

  const GeneratedJob& job_;
  const GeneratorOptions& o_;
  const int rank_;
  const int host_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

GeneratedJob Generate(const GeneratorOptions& options) { return Generator(options).Run(); }

std::string KinetoJson(const GeneratedJob& job, const GeneratorOptions& options, int rank) {
  return Writer(job, options, rank).Text();
}

}  // namespace longhaul::profiler
