#include "trainer/trace/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "io/clock.h"

namespace longhaul::trainer {
namespace {

using OrderedJson = nlohmann::ordered_json;

// By whole numbers: a double would lose nanoseconds of a monotonic clock.
std::string Microseconds(int64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%lld.%03lld", static_cast<long long>(nanoseconds / 1000),
                static_cast<long long>(nanoseconds % 1000));
  return text;
}

std::string ListText(std::span<const int> ranks) { return OrderedJson(ranks).dump(); }

// [[4, 8], [8]] from 2, 4, 8, 1, 8.
OrderedJson Shapes(std::span<const int64_t> dimensions) {
  OrderedJson shapes = OrderedJson::array();
  for (size_t i = 0; i < dimensions.size();) {
    const auto count = static_cast<size_t>(dimensions[i]);
    shapes.push_back(dimensions.subspan(i + 1, count));
    i += 1 + count;
  }
  return shapes;
}

const char* NameOf(Message::Kind kind) {
  switch (kind) {
    case Message::Kind::kSum:
    case Message::Kind::kMax:
      return "allreduce";
    case Message::Kind::kSend:
      return "send";
    case Message::Kind::kReceive:
      return "recv";
  }
  return "";
}

bool IsPointToPoint(Message::Kind kind) {
  return kind == Message::Kind::kSend || kind == Message::Kind::kReceive;
}

}  // namespace

Recorder::Recorder(int rank, const Mesh& mesh, TracedMachine machine)
    : rank_(rank), mesh_(mesh), machine_(std::move(machine)) {}

// The processor time of the end minus that of the begin: the negative begin is stored and the end
// is added.
void Recorder::Open(Span span) {
  span.begin_ns = ToNanoseconds(io::MonotonicNow());
  span.cpu_ns = -ToNanoseconds(io::ThreadCpuTime());
  open_.push_back(spans_.size());
  spans_.push_back(std::move(span));
}

void Recorder::Close() {
  CHECK(!open_.empty());
  Span& span = spans_[open_.back()];
  open_.pop_back();
  span.end_ns = ToNanoseconds(io::MonotonicNow());
  span.cpu_ns += ToNanoseconds(io::ThreadCpuTime());
}

void Recorder::BeginStep(uint64_t step) {
  made_.clear();
  Span span;
  span.kind = Span::Kind::kStep;
  span.name = "ProfilerStep#" + std::to_string(step);
  Open(std::move(span));
}

void Recorder::EndStep() {
  Close();
  ++steps_;
}

void Recorder::BeginPhase(const char* name, int micro_batch) {
  Span span;
  span.kind = Span::Kind::kPhase;
  span.micro_batch = micro_batch;
  span.backward = std::strcmp(name, "backward") == 0;
  span.name = name;
  Open(std::move(span));
}

void Recorder::EndPhase() {
  CloseBackward(io::MonotonicNow(), io::ThreadCpuTime());
  Close();
}

// Of the innermost open span that has one.
int Recorder::MicroBatch() const {
  for (size_t i = open_.size(); i-- > 0;) {
    if (spans_[open_[i]].micro_batch >= 0) return spans_[open_[i]].micro_batch;
  }
  return -1;
}

void Recorder::BeginOperator(const OperatorLabel& label, uint64_t first_node) {
  Span span;
  span.kind = Span::Kind::kOperator;
  span.micro_batch = MicroBatch();
  span.name = label.name;
  span.detail = labels_.size();
  labels_.push_back(label);
  making_.push_back({first_node, first_node, span.detail, span.micro_batch});
  Open(std::move(span));
}

void Recorder::EndOperator(uint64_t after_node) {
  Close();
  CHECK(!making_.empty());
  making_.back().after = after_node;
  if (making_.back().after > making_.back().first) made_.push_back(making_.back());
  making_.pop_back();
}

// Autograd numbers its nodes in the order in which the forward pass makes them. A node belongs to
// the operator during which it was made, so the operators of the backward pass are found by number.
void Recorder::OnBackwardNode(uint64_t node) {
  const auto after = std::upper_bound(made_.begin(), made_.end(), node,
                                      [](uint64_t n, const Made& m) { return n < m.first; });
  // What only adds up gradients has no number of its own: it belongs to what ran before it.
  if (after == made_.begin() || node >= std::prev(after)->after) return;
  const Made& made = *std::prev(after);
  if (running_ != 0 && spans_[running_ - 1].detail == made.label) return;
  const Instant now = io::MonotonicNow();
  const Instant cpu = io::ThreadCpuTime();
  CloseBackward(now, cpu);
  Span span;
  span.kind = Span::Kind::kOperator;
  span.backward = true;
  span.micro_batch = made.micro_batch;
  span.begin_ns = ToNanoseconds(now);
  span.name = labels_[made.label].name;
  span.detail = made.label;
  running_cpu_ns_ = ToNanoseconds(cpu);
  spans_.push_back(std::move(span));
  running_ = spans_.size();
}

void Recorder::CloseBackward(Instant now, Instant cpu) {
  if (running_ == 0) return;
  Span& span = spans_[running_ - 1];
  span.end_ns = ToNanoseconds(now);
  span.cpu_ns = ToNanoseconds(cpu) - running_cpu_ns_;
  running_ = 0;
}

void Recorder::OnKernel(const char* name, Instant begin, Instant end,
                        std::span<const int64_t> dimensions) {
  Span span;
  span.kind = Span::Kind::kKernel;
  span.begin_ns = ToNanoseconds(begin);
  span.end_ns = ToNanoseconds(end);
  span.name = name;
  span.detail = dimensions_.size();
  span.length = dimensions.size();
  dimensions_.insert(dimensions_.end(), dimensions.begin(), dimensions.end());
  spans_.push_back(std::move(span));
}

// Names of groups are stored once and not with each message.
size_t Recorder::GroupOf(const Group& group) {
  const auto [place, fresh] = known_groups_.emplace(&group, groups_.size());
  if (fresh) groups_.emplace_back(group.name(), group.ranks());
  return place->second;
}

void Recorder::OnMessage(const Group& group, const Message& message) {
  if (open_.empty()) return;  // between steps
  Span span;
  span.kind = Span::Kind::kMessage;
  span.micro_batch = MicroBatch();
  span.begin_ns = ToNanoseconds(message.begin);
  span.end_ns = ToNanoseconds(message.end);
  span.cpu_ns = message.cpu_ns;
  span.name = std::string("gloo_") + NameOf(message.kind);
  span.detail = messages_.size();
  messages_.push_back({message, GroupOf(group)});
  spans_.push_back(std::move(span));
}

std::string Recorder::Arguments(const Span& span) const {
  OrderedJson json = OrderedJson::object();
  if (span.kind == Span::Kind::kOperator) {
    const OperatorLabel& label = labels_[span.detail];
    json["Operator"] = label.kind;
    json["Sizes"] = OrderedJson(label.sizes).dump();
    json["Layer"] = label.layer;
    json["Direction"] = span.backward ? "backward" : "forward";
  } else if (span.kind == Span::Kind::kMessage) {
    const auto& [message, group] = messages_[span.detail];
    const auto& [name, ranks] = groups_[group];
    json["Collective name"] = NameOf(message.kind);
    json["In msg nelems"] = message.elements;
    json["Out msg nelems"] = message.elements;
    json["dtype"] = message.element_bytes == 8 ? "Double" : "Float";
    json["Process Group Name"] = name + "." + std::to_string(ranks.front());
    json["Process Group Description"] = name == "world" ? name : name + "_parallel";
    json["Process Group Ranks"] = ListText(ranks);
    json["Group size"] = ranks.size();
    json["Seq"] = message.sequence;
    if (IsPointToPoint(message.kind)) {
      const bool sends = message.kind == Message::Kind::kSend;
      json["Src Rank"] = sends ? rank_ : message.peer;
      json["Dst Rank"] = sends ? message.peer : rank_;
    }
  }
  if (span.micro_batch >= 0) json["Micro batch"] = span.micro_batch;
  if (span.kind != Span::Kind::kKernel) json["CPU ns"] = span.cpu_ns;
  return json.dump();
}

void Recorder::Append(const Span& span, std::string& json) const {
  const auto event = [&](const char* category, const std::string& name, const std::string& more) {
    json += R"({"ph":"X","cat":")";
    json += category;
    json += R"(","name":)" + OrderedJson(name).dump() + R"(,"pid":)" + std::to_string(rank_) +
            R"(,"tid":1,"ts":)" + Microseconds(span.begin_ns) + R"(,"dur":)" +
            Microseconds(span.end_ns - span.begin_ns) + R"(,"args":)" + more + "},\n";
  };
  switch (span.kind) {
    case Span::Kind::kStep:
    case Span::Kind::kPhase:
    case Span::Kind::kOperator:
      return event("user_annotation", span.name, Arguments(span));
    case Span::Kind::kMessage:
      return event("kernel", span.name, Arguments(span));
    case Span::Kind::kKernel:
      break;
  }
  // On a processor the operator is its own kernel: one row for its work, one for its execution.
  const size_t place = static_cast<size_t>(&span - spans_.data()) + 1;
  const std::string id = R"("External id":)" + std::to_string(place);
  const OrderedJson shapes = Shapes(std::span(dimensions_).subspan(span.detail, span.length));
  const OrderedJson types(std::vector<std::string>(shapes.size(), "float"));
  event("cpu_op", span.name,
        "{" + id + R"(,"Input Dims":)" + shapes.dump() + R"(,"Input type":)" + types.dump() + "}");
  event("kernel", span.name, "{" + id + "}");
}

std::string Recorder::ToJson() const {
  nlohmann::ordered_json info;
  info["backend"] = "gloo";
  info["rank"] = rank_;
  info["world_size"] = mesh_.world();
  info["host"] = machine_.host;
  // A device a core: ranks share them.
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (int core = 0; core < machine_.cores; ++core) {
    devices.push_back({{"id", core}, {"name", machine_.processor}});
  }
  std::string json =
      R"({"schemaVersion":1,"displayTimeUnit":"ms","distributedInfo":)" + info.dump() +
      R"(,"deviceProperties":)" + devices.dump() + R"(,"longhaulLayout":{"data":)" +
      std::to_string(mesh_.data()) + R"(,"tensor":)" + std::to_string(mesh_.tensor()) +
      R"(,"pipeline":)" + std::to_string(mesh_.pipeline()) + R"(,"replica":)" +
      std::to_string(mesh_.replica()) + R"(,"part":)" + std::to_string(mesh_.part().part) +
      R"(,"stage":)" + std::to_string(mesh_.part().stage) + "},\n\"traceEvents\":[\n";
  for (const Span& span : spans_) Append(span, json);
  const std::string stage = "rank " + std::to_string(rank_) + ", stage " +
                            std::to_string(mesh_.part().stage) + ", replica " +
                            std::to_string(mesh_.replica()) + ", part " +
                            std::to_string(mesh_.part().part);
  json += R"({"ph":"M","name":"process_name","pid":)" + std::to_string(rank_) +
          R"(,"tid":0,"ts":0,"args":{"name":")" + stage + "\"}}\n]}\n";
  return json;
}

}  // namespace longhaul::trainer
