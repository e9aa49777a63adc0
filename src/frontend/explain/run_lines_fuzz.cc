// events.jsonl and report.json of a run: whatever they contain, a post-mortem and no crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "frontend/explain/run_files.h"
#include "story/story.h"
#include "story/story_json.h"
#include "story/story_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto record = frontend::RecordOfLines(text, "");
  // The first line may be a report as well.
  const auto totals = frontend::ParseReport(text.substr(0, text.find('\n')));
  if (!record.ok()) {
    CHECK(!record.status().message().empty());
    return 0;
  }
  if (totals.ok()) record->totals = *totals;
  const story::Story story = story::MakeStory(*record);
  const std::string shown = story::StoryText(story, {});
  CHECK(shown.find('\x1b') == std::string::npos);
  (void)story::StoryJson(story, {}).dump(-1, ' ', false,
                                         nlohmann::ordered_json::error_handler_t::replace);
  return 0;
}
