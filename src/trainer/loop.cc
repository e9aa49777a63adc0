#include "trainer/loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "corpus/corpus.h"
#include "io/clock.h"
#include "trainer/calibrate/peak.h"
#include "trainer/model/tensor_pool.h"
#include "trainer/parallel/gather.h"
#include "trainer/parallel/starting_weights.h"
#include "trainer/parallel/state_boxes.h"
#include "trainer/trace/step_tracer.h"
#include "trainer/worker/finish.h"
#include "trainer/worker/process_memory.h"

namespace longhaul::trainer {
namespace {

// What is summed over the ranks in the same message as the gradients.
enum Extra : size_t { kLoss, kWantsSnapshot, kWantsStop, kExtras };

constexpr size_t kEvaluationBatch = 16;
constexpr Duration kFinalPeakTime = std::chrono::milliseconds(60);
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Adds the time since its making to a counter when it goes.
// The report's times are sums of the scopes in which such an object lives, so an early return is
// measured too.
class Timed {
 public:
  explicit Timed(int64_t& counter) : counter_(counter) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() { counter_ += (io::MonotonicNow() - begin_).count(); }

 private:
  int64_t& counter_;
  Instant begin_ = io::MonotonicNow();
};

}  // namespace

Result<std::unique_ptr<Loop>> Loop::Create(const TrainerConfig& config, Communicators& groups,
                                           WorkerApi& worker_api, const std::atomic<bool>& stop) {
  const uint32_t replicas = groups.mesh().data();
  // A replica without a sequence would have no loss and no gradient, while the others block in the
  // all-reduce.
  if (config.train.global_batch < replicas) {
    return InvalidArgument("train.global_batch " + std::to_string(config.train.global_batch) +
                           " gives some of the " + std::to_string(replicas) +
                           " replicas no sequence");
  }
  const std::string& directory = config.data_directory;
  ASSIGN_OR_RETURN(auto train, corpus::TokenFile::Open(directory + "/" + corpus::kTrainFile));
  ASSIGN_OR_RETURN(auto held_out, corpus::TokenFile::Open(directory + "/" + corpus::kHeldOutFile));
  if (corpus::SamplesIn(train.tokens().size(), config.model.sequence) == 0) {
    return InvalidArgument(directory + "/" + corpus::kTrainFile + " holds no sample of " +
                           std::to_string(config.model.sequence) + " tokens");
  }
  return std::unique_ptr<Loop>(
      new Loop(config, groups, worker_api, stop, std::move(train), std::move(held_out)));
}

Loop::Loop(const TrainerConfig& config, Communicators& groups, WorkerApi& worker_api,
           const std::atomic<bool>& stop, corpus::TokenFile train, corpus::TokenFile held_out)
    : config_(config),
      groups_(groups),
      mesh_(groups.mesh()),
      worker_api_(worker_api),
      stop_(stop),
      train_(std::move(train)),
      held_out_(std::move(held_out)),
      table_(config.model, mesh_.part()),
      optimizer_(table_, config.train),
      gradients_(table_.floats() + kExtras) {
  model_ = std::make_unique<Gpt>(config.model, table_, optimizer_.weights(),
                                 std::span(gradients_).first(table_.floats()), &groups.tensor());
  pipeline_ = std::make_unique<Pipeline>(*model_, mesh_.part(), config.model, groups.pipeline());
  if (config.trace.first_step > 0) {
    tracer_ = std::make_unique<StepTracer>(config.trace, groups, config.run_directory + "/traces");
  }
}

Loop::~Loop() = default;

std::vector<StateTensor> Loop::State() {
  return StateBoxes(
      table_, {optimizer_.weights(), optimizer_.first_moments(), optimizer_.second_moments()});
}

Status Loop::Fresh() {
  if (!config_.from.has_value()) {
    Initialise(table_, config_.train.seed, optimizer_.weights());
    return {};
  }
  const auto rank = static_cast<uint32_t>(groups_.world().rank());
  const Status loaded = LoadStartingWeights(*config_.from, table_, rank, optimizer_.weights());
  if (loaded.ok()) return {};
  // Not kDataLoss, which would mean that this run's own snapshots are damaged.
  return FailedPrecondition("no weights to begin with from step " +
                            std::to_string(config_.from->step) + " in " + config_.from->folder +
                            ": " + loaded.message());
}

uint64_t Loop::WeightsHash() {
  const std::span<const float> weights = optimizer_.weights();
  return Hash64(std::as_bytes(weights));
}

// A sample is one token longer than the sequence: the targets are the inputs, moved by one token.
std::vector<int64_t> Loop::Load(std::span<const uint16_t> tokens,
                                std::span<const uint64_t> samples) const {
  const size_t sequence = config_.model.sequence;
  std::vector<int64_t> loaded;
  loaded.reserve(samples.size() * (sequence + 1));
  for (const uint64_t sample : samples) {
    const auto text = tokens.subspan(sample * sequence, sequence + 1);
    loaded.insert(loaded.end(), text.begin(), text.end());
  }
  return loaded;
}

void Loop::ChooseSamples(uint64_t step) {
  const uint64_t batch = config_.train.global_batch;
  // Who reads what depends on the replicas there are; what is read, and in which order, doesn't.
  const uint64_t begin = batch * mesh_.replica() / mesh_.data();
  const uint64_t end = batch * (uint64_t{mesh_.replica()} + 1) / mesh_.data();
  const uint64_t count = corpus::SamplesIn(train_.tokens().size(), config_.model.sequence);
  const uint64_t first = (step - 1) * batch + begin;
  samples_.resize(end - begin);
  for (uint64_t i = 0; i < samples_.size(); ++i) samples_[i] = worker_api_.Sample(first + i, count);
}

// Gradients accumulate over the micro-batches in place, so they are cleared once for each step. The
// scale makes the sum over all ranks the mean over the tokens of the global batch.
Result<double> Loop::Compute(StepReport& report, Recorder* recorder) {
  {
    const RecordedOperator cleared(recorder, OptimizerLabel());
    std::fill(gradients_.begin(), gradients_.end(), 0.0F);
  }
  const size_t local = samples_.size();
  const size_t micro =
      config_.micro_batch == 0 ? local : std::min<size_t>(config_.micro_batch, local);
  MicroBatches batches;
  batches.count = static_cast<uint32_t>((local + micro - 1) / micro);
  batches.sequences = [&](uint32_t i) { return std::min(micro, local - i * micro); };
  batches.load = [&](uint32_t i) {
    const RecordedPhase phase(recorder, "data_load");
    const Timed timed(report.data_ns);
    return Load(train_.tokens(), std::span(samples_).subspan(i * micro, batches.sequences(i)));
  };
  return pipeline_->Train(batches, 1.0 / static_cast<double>(report.tokens), recorder);
}

OperatorLabel Loop::OptimizerLabel() const {
  return {"parameters", "optimizer", -1, {static_cast<double>(table_.count())}};
}

// The norm is over the whole model, so parameters that each part holds in full must not be counted
// once for each part.
double Loop::OwnSquaredNorm() const {
  const std::span gradients = std::span(gradients_).first(table_.floats());
  if (table_.part().whole()) return SquaredNorm(gradients);
  double sum = 0;
  for (const Parameter& parameter : table_.parameters()) {
    // What lies whole on each part counts once.
    if (parameter.box.dimension < 0 && table_.part().part > 0) continue;
    sum += SquaredNorm(gradients.subspan(parameter.offset, parameter.count));
  }
  return sum;
}

Result<double> Loop::Reduce(double loss, uint64_t step, StepReport& report, Recorder* recorder) {
  // Loss and agreements travel in the all-reduce of the gradients: a message of their own would
  // cost a round trip in each step. A sum above 0 means that at least one rank has set its flag.
  // All ranks have the same sum, so they decide alike.
  float* const extras = gradients_.data() + table_.floats();
  extras[kLoss] = static_cast<float>(loss / static_cast<double>(report.tokens));
  extras[kWantsSnapshot] = worker_api_.SnapshotDue(step) ? 1.0F : 0.0F;
  extras[kWantsStop] = stop_ ? 1.0F : 0.0F;
  {
    const Timed timed(report.communication_ns);
    RETURN_IF_ERROR(groups_.data().Sum(std::span(gradients_)));
  }
  // The last stage has the loss, each of its parts the whole of it.
  const bool tells = mesh_.part().last() && mesh_.part().part == 0;
  double squares = 0;
  {
    const RecordedOperator norm(recorder, OptimizerLabel());
    squares = OwnSquaredNorm();
  }
  std::array<double, 1 + kExtras> sums = {squares, tells ? extras[kLoss] : 0.0,
                                          extras[kWantsSnapshot], extras[kWantsStop]};
  if (!mesh_.part().whole()) {
    const Timed timed(report.communication_ns);
    RETURN_IF_ERROR(groups_.replica().Sum(std::span(sums)));
  }
  report.loss = sums[1 + kLoss];
  snapshot_agreed_ = sums[1 + kWantsSnapshot] > 0;
  stop_agreed_ = sums[1 + kWantsStop] > 0;
  return std::sqrt(sums[0]);
}

Status Loop::Step(uint64_t step, StepReport& report, Recorder* recorder) {
  report = {};
  report.step = step;
  report.validation_loss = kNone;
  report.tokens = config_.train.global_batch * uint64_t{config_.model.sequence};
  report.flops = ModelFlops(config_.model, report.tokens).count();
  {
    const RecordedPhase phase(recorder, "data_load");
    const Timed timed(report.data_ns);
    ChooseSamples(step);
  }
  // Before the gradients are summed: once any rank can save this step, all have written down
  // theirs.
  if (recorder_ != nullptr) {
    if (const Status status = recorder_->Append(step, samples_); !status.ok()) {
      StopRecording(status);
    }
  }
  ASSIGN_OR_RETURN(const double loss, Compute(report, recorder));
  const RecordedPhase phase(recorder, "optimizer");
  ASSIGN_OR_RETURN(report.gradient_norm, Reduce(loss, step, report, recorder));
  const RecordedOperator updates(recorder, OptimizerLabel());
  const Instant begin = io::MonotonicNow();
  optimizer_.Step(step, std::span<const float>(gradients_).first(table_.floats()),
                  report.gradient_norm);
  if (recorder != nullptr) {
    const std::array<int64_t, 2> dimensions = {1, static_cast<int64_t>(table_.floats())};
    recorder->OnKernel("longhaul::adamw", begin, io::MonotonicNow(), dimensions);
  }
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm)) {
    return OutOfRange("the loss is not finite at step " + std::to_string(step) +
                      "; a lower train.learning_rate may help");
  }
  return {};
}

// All ranks take part, and the replicas divide the samples, so each sample is computed once. The
// pool is trimmed before and after, because the sizes of the tensors differ from those in training.
Result<double> Loop::Evaluate() {
  const uint64_t available = corpus::SamplesIn(held_out_.tokens().size(), config_.model.sequence);
  const uint64_t count = std::min<uint64_t>(config_.train.evaluate_sequences, available);
  if (count == 0) return kNone;
  TrimTensorPool();
  // Samples spread evenly over the held-out text, the same ones at every evaluation.
  const uint64_t begin = count * mesh_.replica() / mesh_.data();
  const uint64_t end = count * (mesh_.replica() + 1) / mesh_.data();
  MicroBatches batches;
  batches.count = static_cast<uint32_t>((end - begin + kEvaluationBatch - 1) / kEvaluationBatch);
  batches.sequences = [&](uint32_t i) {
    return std::min<uint64_t>(kEvaluationBatch, end - begin - i * kEvaluationBatch);
  };
  batches.load = [&](uint32_t i) {
    std::vector<uint64_t> samples(batches.sequences(i));
    for (size_t j = 0; j < samples.size(); ++j) {
      samples[j] = (begin + i * kEvaluationBatch + j) * available / count;
    }
    return Load(held_out_.tokens(), samples);
  };
  ASSIGN_OR_RETURN(double loss, pipeline_->Evaluate(batches));
  TrimTensorPool();
  if (!mesh_.part().last() || mesh_.part().part > 0) loss = 0;
  RETURN_IF_ERROR(groups_.world().Sum(std::span(&loss, 1)));
  return loss / static_cast<double>(count * config_.model.sequence);
}

Status Loop::Run(const std::function<void()>& before_steps) {
  RETURN_IF_ERROR(worker_api_.Enter(Phase::kRestore));
  RETURN_IF_ERROR(worker_api_.Register(State()));
  ASSIGN_OR_RETURN(const uint64_t restored, worker_api_.Restore());
  if (restored == 0) RETURN_IF_ERROR(Fresh());
  // The parts of a replica use the same samples.
  if (config_.record_samples && mesh_.part().first() && mesh_.part().part == 0) {
    auto opened = SampleRecorder::Open(config_.run_directory, worker_api_.Attempt(),
                                       static_cast<uint32_t>(groups_.world().rank()));
    if (opened.ok()) {
      recorder_ = std::move(*opened);
    } else {
      StopRecording(opened.status());
    }
  }
  if (before_steps) before_steps();
  RETURN_IF_ERROR(worker_api_.Enter(Phase::kStepping));
  RETURN_IF_ERROR(RunSteps(restored + 1));
  return FinishRun();
}

// The records are for audits: a full disk must not end the training.
void Loop::StopRecording(const Status& why) {
  recorder_.reset();
  std::fprintf(stderr, "samples are no longer recorded: %s; training continues\n",
               why.message().c_str());
}

// The order in an iteration matters: the snapshot is taken before the step is reported, so the
// controller never counts a step whose due snapshot is missing.
Status Loop::RunSteps(uint64_t first) {
  const spec::TrainSpec& train = config_.train;
  for (uint64_t step = first; step <= train.steps; ++step) {
    StepReport report;
    if (const Status done = TracedStep(step, report); !done.ok()) {
      // The loss is not finite: the controller receives it with its step before this worker ends.
      if (done.code() == Code::kOutOfRange) (void)worker_api_.Report(report);
      return done;
    }
    const bool last = step == train.steps;
    if (last || (train.evaluate_every > 0 && step % train.evaluate_every == 0)) {
      const Timed timed(report.evaluation_ns);
      ASSIGN_OR_RETURN(report.validation_loss, Evaluate());
      if (last) final_validation_loss_ = report.validation_loss;
    }
    // The last state is saved while finishing.
    if ((snapshot_agreed_ || stop_agreed_) && !last) RETURN_IF_ERROR(TakeSnapshot(step));
    RETURN_IF_ERROR(worker_api_.Report(report));
    if (stop_agreed_ && !last) {
      return CancelledError("stopped on request after step " + std::to_string(step));
    }
  }
  return {};
}

Status Loop::TracedStep(uint64_t step, StepReport& report) {
  Recorder* const recorder = tracer_ == nullptr ? nullptr : tracer_->Begin(step);
  model_->Record(recorder);
  RETURN_IF_ERROR(Step(step, report, recorder));
  if (recorder == nullptr) return {};
  model_->Record(nullptr);
  // A trace is optional: a full disk must not end the training.
  if (const Status written = tracer_->End(step); !written.ok()) {
    std::fprintf(stderr, "no trace: %s; training continues\n", written.message().c_str());
  }
  return {};
}

Status Loop::TakeSnapshot(uint64_t step) {
  const Status taken = worker_api_.Snapshot(step);
  if (taken.ok() || taken.code() == Code::kUnavailable) return taken;
  // The older snapshots are still there; losing one is no reason to stop.
  std::fprintf(stderr, "snapshot after step %llu: %s\n", static_cast<unsigned long long>(step),
               taken.message().c_str());
  return {};
}

Status Loop::FinishRun() {
  RETURN_IF_ERROR(worker_api_.Enter(Phase::kFinishing));
  if (!final_validation_loss_) {
    ASSIGN_OR_RETURN(final_validation_loss_, Evaluate());
  }
  RETURN_IF_ERROR(TakeSnapshot(config_.train.steps));
  Group& world = groups_.world();
  std::vector<double> memory(static_cast<size_t>(world.world()));
  memory[static_cast<size_t>(world.rank())] = static_cast<double>(PeakProcessMemory().count());
  RETURN_IF_ERROR(world.Sum(std::span(memory)));
  // All at once, so that each core is measured while its neighbours are busy too.
  double peak = MeasureCorePeak(kFinalPeakTime).count();
  RETURN_IF_ERROR(world.Sum(std::span(&peak, 1)));
  peak /= world.world();
  FinalFacts facts;
  facts.peak_per_core = FlopsPerSecond(peak);
  facts.peak_memory = Bytes(static_cast<int64_t>(*std::max_element(memory.begin(), memory.end())));
  return table_.part().whole() ? Conclude(*model_, table_, optimizer_.weights(), facts)
                               : GatherAndConclude(facts);
}

Status Loop::Conclude(Gpt& model, const ParameterTable& table, std::span<const float> weights,
                      FinalFacts& facts) {
  if (groups_.world().rank() != 0) return {};
  facts.parameters = table.count();
  facts.weights_hash = Hash64(std::as_bytes(weights));
  facts.validation_loss = *final_validation_loss_;
  facts.prompt = config_.sample.prompt;
  facts.sample = GenerateText(model, config_.model.sequence, config_.sample, config_.train.seed);
  return worker_api_.Finish(ResultJson(facts));
}

Status Loop::GatherAndConclude(FinalFacts& facts) {
  if (mesh_.replica() != 0) return {};
  const ParameterTable whole(config_.model);
  ASSIGN_OR_RETURN(auto weights,
                   GatherWhole(table_, whole, groups_.replica(), optimizer_.weights()));
  if (groups_.world().rank() != 0) return {};
  Gpt model(config_.model, whole, weights, {});
  return Conclude(model, whole, weights, facts);
}

}  // namespace longhaul::trainer
