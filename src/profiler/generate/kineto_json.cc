#include <cstdio>
#include <string>

#include "base/check.h"
#include "profiler/generate/job_generator.h"

namespace longhaul::profiler {
namespace {

// Appends to the text as printf does.
template <typename... Args>
void Print(std::string* text, const char* format, Args... args) {
  char line[1024];
  const int size = std::snprintf(line, sizeof(line), format, args...);
  CHECK(size >= 0 && size < static_cast<int>(sizeof(line)));
  text->append(line, static_cast<size_t>(size));
}

class KinetoWriter {
 public:
  KinetoWriter(const GeneratedJob& job, const GeneratorOptions& o, int rank)
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

std::string KinetoJson(const GeneratedJob& job, const GeneratorOptions& options, int rank) {
  return KinetoWriter(job, options, rank).Text();
}

}  // namespace longhaul::profiler
