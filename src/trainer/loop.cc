#include "trainer/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "corpus/corpus.h"
#include "io/clock.h"
#include "trainer/finish.h"
#include "trainer/peak.h"
#include "trainer/process_memory.h"
#include "trainer/tensor_pool.h"

namespace longhaul::trainer {
namespace {

// What is summed over the ranks in the same message as the gradients.
enum Extra : size_t { kLoss, kWantsSnapshot, kWantsStop, kExtras };

constexpr size_t kEvaluationBatch = 16;
constexpr Duration kFinalPeakTime = std::chrono::milliseconds(60);
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Adds the time since its making to a counter when it goes.
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

Result<std::unique_ptr<Loop>> Loop::Create(const TrainerConfig& config, Group& group, JobDoor& door,
                                           const std::atomic<bool>& stop) {
  const auto world = static_cast<uint32_t>(group.world());
  if (config.train.global_batch % world != 0) {
    return InvalidArgument("train.global_batch " + std::to_string(config.train.global_batch) +
                           " is not divisible by the " + std::to_string(world) + " ranks");
  }
  const std::string& directory = config.data_directory;
  ASSIGN_OR_RETURN(auto train, corpus::TokenFile::Open(directory + "/" + corpus::kTrainFile));
  ASSIGN_OR_RETURN(auto held_out, corpus::TokenFile::Open(directory + "/" + corpus::kHeldOutFile));
  if (corpus::SamplesIn(train.tokens().size(), config.model.sequence) == 0) {
    return InvalidArgument(directory + "/" + corpus::kTrainFile + " holds no sample of " +
                           std::to_string(config.model.sequence) + " tokens");
  }
  return std::unique_ptr<Loop>(
      new Loop(config, group, door, stop, std::move(train), std::move(held_out)));
}

Loop::Loop(const TrainerConfig& config, Group& group, JobDoor& door, const std::atomic<bool>& stop,
           corpus::TokenFile train, corpus::TokenFile held_out)
    : config_(config),
      group_(group),
      door_(door),
      stop_(stop),
      train_(std::move(train)),
      held_out_(std::move(held_out)),
      table_(config.model),
      optimizer_(table_, config.train),
      gradients_(table_.floats() + kExtras) {
  model_ = std::make_unique<Gpt>(config.model, table_, optimizer_.weights(),
                                 std::span(gradients_).first(table_.floats()));
}

std::vector<StateTensor> Loop::State() {
  std::vector<StateTensor> state;
  const std::pair<const char*, std::span<float>> kinds[] = {
      {"", optimizer_.weights()},
      {"optimizer.first_moment.", optimizer_.first_moments()},
      {"optimizer.second_moment.", optimizer_.second_moments()}};
  for (const auto& [prefix, values] : kinds) {
    for (const Parameter& parameter : table_.parameters()) {
      state.push_back({prefix + parameter.name, values.subspan(parameter.offset, parameter.count),
                       parameter.shape});
    }
  }
  return state;
}

void Loop::Fresh() { Initialise(table_, config_.train.seed, optimizer_.weights()); }

uint64_t Loop::WeightsHash() {
  const std::span<const float> weights = optimizer_.weights();
  return Hash64(std::as_bytes(weights));
}

void Loop::Load(std::span<const uint16_t> tokens, std::span<const uint64_t> samples) {
  const size_t sequence = config_.model.sequence;
  tokens_.clear();
  for (const uint64_t sample : samples) {
    const auto text = tokens.subspan(sample * sequence, sequence + 1);
    tokens_.insert(tokens_.end(), text.begin(), text.end());
  }
}

Status Loop::Step(uint64_t step, StepReport& report) {
  const uint64_t batch = config_.train.global_batch;
  const uint64_t local = batch / static_cast<uint64_t>(group_.world());
  report = {};
  report.step = step;
  report.validation_loss = kNone;
  report.tokens = batch * config_.model.sequence;
  report.flops = ModelFlops(config_.model, report.tokens).count();
  {
    const Timed timed(report.data_ns);
    const uint64_t count = corpus::SamplesIn(train_.tokens().size(), config_.model.sequence);
    const uint64_t first = (step - 1) * batch + local * static_cast<uint64_t>(group_.rank());
    samples_.resize(local);
    for (uint64_t i = 0; i < local; ++i) samples_[i] = door_.Sample(first + i, count);
  }

  std::fill(gradients_.begin(), gradients_.end(), 0.0F);
  const size_t micro =
      config_.micro_batch == 0 ? local : std::min<size_t>(config_.micro_batch, local);
  double loss = 0;
  for (size_t at = 0; at < local; at += micro) {
    {
      const Timed timed(report.data_ns);
      Load(train_.tokens(), std::span(samples_).subspan(at, std::min(micro, local - at)));
    }
    loss += model_->ForwardBackward(tokens_, 1.0 / static_cast<double>(report.tokens));
  }

  float* const extras = gradients_.data() + table_.floats();
  extras[kLoss] = static_cast<float>(loss / static_cast<double>(report.tokens));
  extras[kWantsSnapshot] = door_.SnapshotDue(step) ? 1.0F : 0.0F;
  extras[kWantsStop] = stop_ ? 1.0F : 0.0F;
  {
    const Timed timed(report.communication_ns);
    RETURN_IF_ERROR(group_.Sum(std::span(gradients_)));
  }
  report.loss = static_cast<double>(extras[kLoss]);
  snapshot_agreed_ = extras[kWantsSnapshot] > 0;
  stop_agreed_ = extras[kWantsStop] > 0;
  report.gradient_norm =
      optimizer_.Step(step, std::span<const float>(gradients_).first(table_.floats()));
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm)) {
    return OutOfRange("the loss is not finite at step " + std::to_string(step) +
                      "; a lower train.learning_rate may help");
  }
  return {};
}

Result<double> Loop::Evaluate() {
  const uint64_t available = corpus::SamplesIn(held_out_.tokens().size(), config_.model.sequence);
  const uint64_t count = std::min<uint64_t>(config_.train.evaluate_sequences, available);
  if (count == 0) return kNone;
  const auto rank = static_cast<uint64_t>(group_.rank());
  const auto world = static_cast<uint64_t>(group_.world());
  TrimTensorPool();
  // Samples spread evenly over the held-out text, the same ones at every evaluation.
  double loss = 0;
  const uint64_t end = count * (rank + 1) / world;
  for (uint64_t i = count * rank / world; i < end;) {
    std::vector<uint64_t> samples;
    for (; i < end && samples.size() < kEvaluationBatch; ++i)
      samples.push_back(i * available / count);
    Load(held_out_.tokens(), samples);
    loss += model_->Loss(tokens_);
  }
  TrimTensorPool();
  RETURN_IF_ERROR(group_.Sum(std::span(&loss, 1)));
  return loss / static_cast<double>(count * config_.model.sequence);
}

Status Loop::Run() {
  RETURN_IF_ERROR(door_.Enter(Phase::kRestore));
  RETURN_IF_ERROR(door_.Register(State()));
  ASSIGN_OR_RETURN(const uint64_t restored, door_.Restore());
  if (restored == 0) Fresh();
  if (config_.record_samples) {
    auto opened = SampleRecorder::Open(config_.run_directory, door_.Epoch(),
                                       static_cast<uint32_t>(group_.rank()));
    if (opened.ok()) {
      recorder_ = std::move(*opened);
    } else {
      StopRecording(opened.status());
    }
  }
  RETURN_IF_ERROR(door_.Enter(Phase::kStepping));
  RETURN_IF_ERROR(RunSteps(restored + 1));
  return FinishRun();
}

// The records are for audits: a full disk must not end the training.
void Loop::StopRecording(const Status& why) {
  recorder_.reset();
  std::fprintf(stderr, "samples are no longer recorded: %s; training goes on\n",
               why.message().c_str());
}

Status Loop::RunSteps(uint64_t first) {
  const spec::TrainSpec& train = config_.train;
  for (uint64_t step = first; step <= train.steps; ++step) {
    StepReport report;
    RETURN_IF_ERROR(Step(step, report));
    if (recorder_ != nullptr) {
      if (const Status status = recorder_->Append(step, samples_); !status.ok()) {
        StopRecording(status);
      }
    }
    const bool last = step == train.steps;
    if (last || (train.evaluate_every > 0 && step % train.evaluate_every == 0)) {
      const Timed timed(report.evaluation_ns);
      ASSIGN_OR_RETURN(report.validation_loss, Evaluate());
      if (last) final_validation_loss_ = report.validation_loss;
    }
    // The last state is saved while finishing.
    if ((snapshot_agreed_ || stop_agreed_) && !last) RETURN_IF_ERROR(TakeSnapshot(step));
    RETURN_IF_ERROR(door_.Report(report));
    if (stop_agreed_ && !last) {
      return CancelledError("told to stop after step " + std::to_string(step));
    }
  }
  return {};
}

Status Loop::TakeSnapshot(uint64_t step) {
  const Status taken = door_.Snapshot(step);
  if (taken.ok() || taken.code() == Code::kUnavailable) return taken;
  // The older snapshots are still there; losing one is no reason to stop.
  std::fprintf(stderr, "snapshot after step %llu: %s\n", static_cast<unsigned long long>(step),
               taken.message().c_str());
  return {};
}

Status Loop::FinishRun() {
  RETURN_IF_ERROR(door_.Enter(Phase::kFinishing));
  if (!final_validation_loss_) {
    ASSIGN_OR_RETURN(final_validation_loss_, Evaluate());
  }
  RETURN_IF_ERROR(TakeSnapshot(config_.train.steps));
  std::vector<double> memory(static_cast<size_t>(group_.world()));
  memory[static_cast<size_t>(group_.rank())] = static_cast<double>(PeakProcessMemory().count());
  RETURN_IF_ERROR(group_.Sum(std::span(memory)));
  // All at once, so that each core is measured while its neighbours are busy too.
  double peak = MeasureCorePeak(kFinalPeakTime).count();
  RETURN_IF_ERROR(group_.Sum(std::span(&peak, 1)));
  peak /= group_.world();
  if (group_.rank() != 0) return {};
  FinalFacts facts;
  facts.parameters = table_.count();
  facts.weights_hash = WeightsHash();
  facts.validation_loss = *final_validation_loss_;
  facts.peak_per_core = FlopsPerSecond(peak);
  facts.peak_memory = Bytes(static_cast<int64_t>(*std::max_element(memory.begin(), memory.end())));
  facts.prompt = config_.sample.prompt;
  facts.sample = GenerateText(*model_, config_.model.sequence, config_.sample, config_.train.seed);
  return door_.Finish(ResultJson(facts));
}

}  // namespace longhaul::trainer
