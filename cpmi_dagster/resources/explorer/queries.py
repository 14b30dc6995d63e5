"""The SQL of every page, over the published tables; pages show it, and `cpmi query` runs it."""

SELECTED = "alignment.trajectories t join selection.selected_trajectories s using (trajectory_id)"
"""The trajectories that pages show; the explorer caches them in memory."""

REWARD_TYPES = "select distinct reward_type from labels.step_rewards order by all"

TASKS = f"select distinct t.task from {SELECTED} order by all"

MATCHES = """($task = '' or t.task = $task) and (
        $search = '' or contains(lower(question), lower($search)) or trajectory_id = $search or source_id = $search)"""

LISTED = f"""
    select trajectory_id, source_id, t.task, question, gold_answer, len(steps) as steps
    from {SELECTED}
    where trajectory_id > $after and {MATCHES}
    order by trajectory_id limit $most
"""

NEIGHBOURS = f"""
    select max(trajectory_id) filter (where trajectory_id < $id) as previous,
           min(trajectory_id) filter (where trajectory_id > $id) as next,
           count(*) filter (where trajectory_id <= $id) as place, count(*) as matches
    from {SELECTED}
    where {MATCHES}
"""

STRIPS = """
    select trajectory_id, list(soft_label order by step_index) as soft_labels
    from dataset.soft_labels
    where trajectory_id in (select unnest($ids)) and reward_type = $reward_type
    group by trajectory_id
"""

TRAJECTORY = f"""
    select trajectory_id, source_id, shard, t.task, question, steps, shepherd_labels, final_answer, gold_answer,
           match_source, match_kind, correct, kind
    from {SELECTED} left join (select row_number, correct, kind from sources.step_truth) using (row_number)
    where trajectory_id = $id or source_id = $id
    order by trajectory_id <> $id, trajectory_id limit 1
"""

LABELS = """
    select step_index, reward_type, reward, soft_label
    from labels.step_rewards
    left join (from dataset.soft_labels where trajectory_id = $id) using (trajectory_id, step_index, reward_type)
    where trajectory_id = $id and list_contains($types, reward_type)
    order by all
"""

FIRST_ERROR = """
    select step_index, 1 - reward as probability
    from labels.step_rewards where trajectory_id = $id and reward_type = 'first_error'
"""

CONDITIONINGS = "select distinct conditioning from labels.template_scores"

ANSWERS = """
    with scored as (
        select answer_rank as rank, template,
               max(logprob_sum / token_count) filter (where context = $before and step_index = $before_step) as before,
               max(logprob_sum / token_count) filter (where context = $after and step_index = $after_step) as after
        from labels.answer_logprobs where trajectory_id = $id
        group by all having before is not null and after is not null
    )
    select rank, if(rank = 0, $gold, answer) as answer, source, avg(after - before) as mean_shift,
           list({'template': template, 'before': before, 'after': after, 'shift': after - before} order by template)
           as templates
    from scored left join (from labels.hard_negatives where trajectory_id = $id) using (rank)
    group by all order by rank
"""

ROLLOUTS = """
    with sampled as (
        select 'rollout model' as sampler, * from labels.policy_rollouts where trajectory_id = $id
        union all by name select 'prover' as sampler, * from labels.prover_rollouts where trajectory_id = $id
    )
    select sampler, answer, correct, generated_tokens, truncated, text, count(*) as times
    from sampled where prefix_length = $prefix_length group by all order by sampler, min(rollout)
"""

DISAGREEMENT = f"""
    select trajectory_id, source_id, t.task, step_index, steps[step_index + 1] as step,
           a.soft_label as first, b.soft_label as second
    from {SELECTED}
    join (from dataset.soft_labels where reward_type = $first) a using (trajectory_id)
    join (from dataset.soft_labels where reward_type = $second) b using (trajectory_id, step_index)
    where step_index < len(steps) - 1 and {MATCHES}
    order by abs(a.soft_label - b.soft_label) desc, trajectory_id, step_index limit $most
"""

# figures leave out last steps, so solutions of one step are not asked for;
# every beginning of the queue has its share of each stratum, and each solution the same chance to be in it, so its
# figures estimate those of all solutions; md5 makes the order the same in every version of DuckDB
QUEUE = f"""
    with solutions as (
        select trajectory_id, t.task, ntile(3) over (order by avg(reward), trajectory_id) as third,
               md5(concat($seed, ' ', trajectory_id)) as lot,
               row_number in (select row_number from sources.step_truth) as is_judged
        from labels.step_rewards join {SELECTED} using (trajectory_id)
        where reward_type = $base
        group by trajectory_id, t.task, row_number having count(*) > 1
    ),
    dealt as (
        select *, row_number() over (partition by task, third order by lot) - 1 as dealt,
               md5_number_lower(concat($seed, ' ', task, ' ', third)) / 18446744073709551616.0 as start,
               count(*) over (partition by task, third) as held
        from solutions
    )
    select trajectory_id, is_judged from dealt order by (dealt + start) / held, lot limit $most
"""

JUDGED_TRAJECTORIES = f"""
    select trajectory_id, source_id, row_number, t.question_id, question, steps, shepherd_labels
    from {SELECTED} where trajectory_id in (select unnest($ids))
"""

JUDGED_SOLUTIONS = f"""
    select trajectory_id, source_id, row_number, t.question_id, question, steps, shepherd_labels, correct
    from {SELECTED} left join (select row_number, correct from sources.step_truth) using (row_number)
    where trajectory_id in (select unnest($ids)) or correct is not null
"""

JUDGED_REWARDS = """
    select trajectory_id, step_index, reward_type, reward
    from labels.step_rewards where trajectory_id in (select unnest($ids))
"""
