#include "study/archive/merge.h"

#include "ablations/plan/shard.h"
#include "ablations/run/run_setting.h"
#include "ablations/run/study_folder.h"
#include "files/files.h"
#include "harness/process/locks.h"
#include "study/archive/seal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace study {

namespace fs = std::filesystem;

namespace {

struct SourceRecord {
  std::string run_id;
  fs::path file;
  std::string text, flagged;   // of the files; flagged: of the first of two, empty where there was one only
  std::optional<Facts> facts;  // none for a run that failed: it says nothing of its machine
  std::string device;          // "nvidia-h200"; empty for a run that failed
  std::string peer;            // as the rung's
};

struct Source {
  fs::path folder;
  Plan plan;
  std::vector<SourceRecord> records;
};

// Copied to the byte. Throws std::invalid_argument for what is no record.
std::pair<std::string, Record> text_and_record(const fs::path& file) {
  std::string text = files::read_file(file, size_t{64} << 20);
  auto record = value_from<Record>(files::parse_json(text, file.string()), file.string());
  return {std::move(text), std::move(record)};
}

Source read_source(const fs::path& folder) {
  Source source{.folder = folder, .plan = open_study(folder), .records = {}};
  if (source.plan.gate) throw std::invalid_argument(fmt::format("{}: is a gate, not a study", folder.string()));
  check_not_edited(source.plan, folder);
  for (const PlannedRun& run : source.plan.runs) {
    const fs::path file = record_file(folder, run.id);
    if (!fs::exists(file)) continue;
    const auto [text, record] = text_and_record(file);
    const std::string failure = !record.is_ok() && record.id == run.id ? "" : failure_of(record, source.plan, run);
    if (!failure.empty()) {
      throw std::invalid_argument(
          fmt::format("{}: the record does not fit the plan: {}; ladder ablate --resume --out {} makes it again",
                      file.string(), failure, folder.string()));
    }
    const bool cuda = uses_cuda(source.plan);
    const fs::path flagged = flagged_file(file);
    SourceRecord read{.run_id = run.id,
                      .file = file,
                      .text = text,
                      .flagged = fs::exists(flagged) ? text_and_record(flagged).first : "",
                      .facts = {},
                      .device = {},
                      .peer = source.plan.rungs[run.rung].peer};
    if (record.is_ok()) {
      read.facts = study_facts(record, cuda);
      read.device = machine_setting(record.environment, cuda).device_slug();
    }
    source.records.push_back(std::move(read));
  }
  return source;
}

void check_plans(const std::vector<const Source*>& sources) {
  for (const Source* source : sources) {
    const auto lines = plan_differences(sources.front()->plan, source->plan);
    if (lines.empty()) continue;
    const size_t told = std::min<size_t>(lines.size(), 3);
    throw std::invalid_argument(
        fmt::format("{} and {}: not the same plan: {}{}", sources.front()->folder.string(), source->folder.string(),
                    fmt::join(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(told), "; "),
                    lines.size() > told ? "; and more" : ""));
  }
}

// A peer is compared only with itself: its Python records less than this program, and may have another PyTorch.
void check_machines(const std::vector<const Source*>& sources) {
  std::map<std::string, const SourceRecord*> first;
  for (const Source* source : sources) {
    for (const SourceRecord& record : source->records) {
      if (!record.facts) continue;
      const SourceRecord& other = *first.try_emplace(record.peer, &record).first->second;
      const auto lines = differences(*other.facts, *record.facts);
      if (lines.empty()) continue;
      const bool devices = other.facts->at("device") != record.facts->at("device");
      throw std::invalid_argument(fmt::format(
          "{} and {} cannot be joined in one study: {}{}", other.file.string(), record.file.string(),
          fmt::join(lines, "; "), devices ? "; --group-by-device makes one study for each kind of device" : ""));
    }
  }
}

// Whether `later` is what --resume made of a run after `earlier` was copied: where that had failed, or was disturbed.
bool takes_the_place_of(const SourceRecord& later, const SourceRecord& earlier) {
  return !earlier.facts || later.flagged == earlier.text;
}

// The record of each run. Twice the same is a copy; two different ones are two measurements.
std::map<std::string, const SourceRecord*> records_of(const std::vector<const Source*>& sources) {
  std::map<std::string, const SourceRecord*> records;
  for (const Source* source : sources) {
    for (const SourceRecord& record : source->records) {
      const SourceRecord*& known = records.try_emplace(record.run_id, &record).first->second;
      if (known->text == record.text || takes_the_place_of(*known, record)) continue;
      if (!takes_the_place_of(record, *known)) {
        throw std::invalid_argument(fmt::format("run {} was measured twice: {} and {}; leave one of them out",
                                                record.run_id, known->file.string(), record.file.string()));
      }
      known = &record;
    }
  }
  return records;
}

// Each kind of device by its slug, with its part of every source. A failed run goes where the rest of its shard went.
std::map<std::string, std::vector<Source>> by_device(const std::vector<Source>& sources) {
  std::map<std::string, std::vector<Source>> groups;
  for (const Source& source : sources) {
    std::map<std::string, Source> parts;
    std::string slug;
    for (const SourceRecord& record : source.records) {
      if (record.facts) slug = record.device;
    }
    for (const SourceRecord& record : source.records) {
      const std::string own = record.facts ? record.device : slug;
      if (own.empty()) continue;  // nothing of the shard ended well: its device is not known
      parts.try_emplace(own, Source{source.folder, source.plan, {}}).first->second.records.push_back(record);
    }
    for (auto& [device, part] : parts) groups[device].push_back(std::move(part));
  }
  return groups;
}

struct Prepared {
  MergedStudy study;
  bool is_new = false;
  std::map<std::string, const SourceRecord*> records;
};

// `sources` outlive the result.
Prepared prepare(const fs::path& folder, const std::vector<const Source*>& sources) {
  check_plans(sources);
  for (const Source* source : sources) check_records_are_of(source->plan, source->folder, Unnamed::counts);
  check_machines(sources);
  Prepared prepared;
  prepared.records = records_of(sources);
  prepared.is_new = !fs::exists(folder / "plan.json");
  if (prepared.is_new) {
    check_may_begin(folder);
  } else {
    check_has_no_links(folder);
  }
  prepared.study.folder = folder;
  prepared.study.plan = sources.front()->plan;
  prepared.study.plan.shard.reset();
  for (const PlannedRun& run : prepared.study.plan.runs) {
    if (!prepared.records.contains(run.id)) prepared.study.missing.push_back(run);
  }
  return prepared;
}

void write(const Prepared& prepared) {
  const fs::path& folder = prepared.study.folder;
  if (prepared.is_new) create_study(prepared.study.plan, folder);
  const harness::FolderLock lock(folder);
  files::make_folder_in(folder, "records");
  for (const auto& [run_id, record] : prepared.records) {
    const fs::path file = record_file(folder, run_id);
    if (file == record->file) continue;
    if (!record->flagged.empty()) files::write_file(flagged_file(file), record->flagged);
    files::write_file(file, record->text);
  }
}

std::vector<const Source*> pointers(const std::vector<Source>& sources) {
  std::vector<const Source*> result;
  result.reserve(sources.size());
  for (const Source& source : sources) result.push_back(&source);
  return result;
}

}  // namespace

std::vector<MergedStudy> merge_studies(const fs::path& out, const std::vector<fs::path>& shards, bool group_by_device) {
  std::vector<Source> sources;
  std::list<harness::FolderLock> locks;
  const auto add = [&](const fs::path& folder, const fs::path& into) {
    for (const Source& known : sources) {
      if (fs::exists(folder) && fs::equivalent(known.folder, folder)) {
        throw std::invalid_argument(fmt::format(
            "{}: given twice, or the folder to merge into, whose own part is included anyway", folder.string()));
      }
    }
    if (fs::exists(folder / "plan.json")) locks.emplace_back(folder);  // first: no run may end while it is read
    sources.push_back(read_source(folder));
    if (sources.back().plan.shard && fs::exists(into) && fs::equivalent(into, folder)) {
      throw std::invalid_argument(fmt::format("{}: holds a shard; merge into another folder", into.string()));
    }
  };
  if (fs::exists(out / "plan.json")) {
    if (group_by_device) {
      throw std::invalid_argument(fmt::format(
          "{}: holds one study; --group-by-device makes one folder for each device in another", out.string()));
    }
    add(out, out);
  }
  for (const fs::path& shard : shards) add(shard, out);

  std::vector<Prepared> prepared;
  auto groups = group_by_device ? by_device(sources) : std::map<std::string, std::vector<Source>>{};
  if (!group_by_device) prepared.push_back(prepare(out, pointers(sources)));
  for (auto& [device, parts] : groups) {
    const fs::path folder = out / device;
    if (fs::exists(folder / "plan.json")) {
      add(folder, folder);
      parts.insert(parts.begin(), sources.back());
    }
    prepared.push_back(prepare(folder, pointers(parts)));
  }
  if (prepared.empty()) {
    throw std::invalid_argument("--group-by-device: no run of these shards succeeded, so their devices are not known");
  }
  locks.clear();
  std::vector<MergedStudy> studies;
  for (Prepared& study : prepared) {
    write(study);
    studies.push_back(std::move(study.study));
  }
  return studies;
}

}  // namespace study
