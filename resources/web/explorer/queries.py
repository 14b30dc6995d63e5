"""The SQL of every view, over the published tables; the reader sees it and can run it with `cpmi query`."""

SELECTED = "alignment.trajectories t semi join selection.selected_trajectories using (trajectory_id)"

MATCHES = """
    ($search = '' or contains(lower(question), lower($search)) or trajectory_id = $search or source_id = $search)
    and ($task = '' or t.task = $task)
"""

REWARD_TYPES = """
    select distinct reward_type from dataset.soft_labels
    union select distinct reward_type from labels.step_rewards
    order by all
"""

TASKS = "select distinct task from selection.selected_trajectories order by all"

LISTED = f"""
    with page as (
        select trajectory_id
        from {SELECTED}
        where trajectory_id > $after and {MATCHES.strip()}
        order by trajectory_id limit $most
    )
    select trajectory_id, source_id, task, question, gold_answer, len(steps) as steps
    from alignment.trajectories where trajectory_id in (select trajectory_id from page)
    order by trajectory_id
"""

COUNTED = f"""
    select count(*) as matches
    from {SELECTED}
    where {MATCHES.strip()}
"""

STRIPS = """
    select trajectory_id, list(soft_label order by step_index) as soft_labels
    from dataset.soft_labels
    where trajectory_id between $first and $last and reward_type = $reward_type
    group by trajectory_id
"""

STRIPS_OF = """
    select trajectory_id, list(soft_label order by step_index) as soft_labels
    from dataset.soft_labels
    where trajectory_id in (select unnest($ids)) and reward_type = $reward_type
    group by trajectory_id
"""

TRAJECTORY = """
    select t.trajectory_id, t.source_id, t.row_number, t.task, t.question, t.steps, t.shepherd_labels,
           t.final_answer, t.gold_answer, t.match_source, t.match_kind, s.shard, s.composition
    from alignment.trajectories t join selection.selected_trajectories s using (trajectory_id)
    where t.trajectory_id = $id
"""

OWN_ID = """
    select trajectory_id
    from alignment.trajectories semi join selection.selected_trajectories using (trajectory_id)
    where source_id = $id order by trajectory_id limit 1
"""

SOURCE_IDS = """
    select trajectory_id, source_id from alignment.trajectories
    where trajectory_id in (select unnest($ids)) and source_id is not null
"""

NEIGHBOURS = f"""
    select max(trajectory_id) filter (where trajectory_id < $id) as previous,
           min(trajectory_id) filter (where trajectory_id > $id) as next,
           count(*) filter (where trajectory_id <= $id) as place, count(*) as matches
    from {SELECTED}
    where {MATCHES.strip()}
"""

REWARDS = """
    select step_index, reward_type, reward from labels.step_rewards
    where trajectory_id = $id and list_contains($types, reward_type)
    order by all
"""

SOFT_LABELS = """
    select step_index, reward_type, soft_label from dataset.soft_labels
    where trajectory_id = $id and list_contains($types, reward_type)
    order by all
"""

TRUTH = "select correct, kind from sources.step_truth where row_number = $row_number"

CONDITIONINGS = """
    select distinct conditioning from labels.template_scores where trajectory_id = $id order by all
"""

ANSWERS = """
    select a.answer_rank, if(a.answer_rank = 0, $gold, n.answer) as answer, n.source, a.template, a.token_count,
           max(logprob_sum) filter (where context = $before and step_index = $before_step) as before,
           max(logprob_sum) filter (where context = $after and step_index = $after_step) as after
    from labels.answer_logprobs a
    left join labels.hard_negatives n on n.trajectory_id = a.trajectory_id and n.rank = a.answer_rank
    where a.trajectory_id = $id
    group by all having before is not null or after is not null
    order by all
"""

ROLLOUTS = """
    select 'policy' as model, answer, correct, generated_tokens, truncated, text, count(*) as times,
           min(rollout) as first
    from labels.policy_rollouts where trajectory_id = $id and prefix_length = $prefix_length group by all
    union all
    select 'prover', answer, correct, generated_tokens, truncated, text, count(*), min(rollout)
    from labels.prover_rollouts where trajectory_id = $id and prefix_length = $prefix_length group by all
    order by model, first
"""

# the first sign of arithmetic that stands between two numbers, plain or in LaTeX
SIGN = r"regexp_extract(t.steps[a.step_index + 1], '[0-9)}%] *([-+*/×÷^]|\\cdot|\\times|\\div) *[$({0-9\\]', 1)"

PAIRS = f"""
    with pairs as (
        select * exclude (sign),
               case when sign in ('×', '\\cdot', '\\times') then '*' when sign in ('÷', '\\div') then '/'
                    when sign = '' then 'none' else sign end as operation
        from (
            select trajectory_id, t.source_id, step_index, t.task, a.soft_label as first, b.soft_label as second,
                   t.steps[a.step_index + 1] as step, abs(a.soft_label - b.soft_label) as difference,
                   {SIGN} as sign
            from dataset.soft_labels a
            join dataset.soft_labels b using (trajectory_id, step_index)
            join alignment.trajectories t using (trajectory_id)
            where a.reward_type = $first and b.reward_type = $second
        )
    )
"""

DISAGREEMENT = f"""
    {PAIRS.strip()},
    parts as (
        select unnest([task, step_index::varchar, operation]) as value,
               unnest(['task', 'position', 'operation']) as part, first, second, difference
        from pairs
    )
    select part, value, count(*) as steps, avg(difference) as mean,
           avg(if((first < 0.5) <> (second < 0.5), 1, 0)) as opposite
    from parts group by all order by part, mean desc, value
"""

DISAGREEING_STEPS = f"""
    {PAIRS.strip()}
    select * from pairs
    where ($task = '' or task = $task) and ($position is null or step_index = $position)
      and ($operation = '' or operation = $operation)
    order by difference desc, trajectory_id, step_index limit 50
"""

DISTRIBUTIONS = """
    with chosen as (
        select reward_type, reward, {'trajectory_id': trajectory_id, 'step_index': step_index, 'reward': reward} as step
        from labels.step_rewards where list_contains($types, reward_type)
    ),
    extent as (
        select reward_type, count(*) as steps, min(reward) as lowest, median(reward) as middle, max(reward) as highest,
               arg_min(step, reward, 5) as lowest_steps, arg_max(step, reward, 5) as highest_steps,
               avg(reward) as mean, stddev_pop(reward) as deviation,
               quantile_cont(reward, 0.005) as low, quantile_cont(reward, 0.995) as high
        from chosen group by all
    )
    select extent.*, bin, count(*) as held
    from (
        select reward_type,
               if(high > low, least(greatest(floor((reward - low) / (high - low) * 30), 0), 29), 0)::int as bin
        from chosen join extent using (reward_type)
    ) join extent using (reward_type)
    group by all order by reward_type, bin
"""

# every first part of the queue has its share of each stratum, and each step the same chance to be in it, so that a
# figure over this part is one of all steps; lots are by md5, which every version of DuckDB draws alike
QUEUE = """
    with steps as (
        select trajectory_id, step_index, t.task,
               case step_index when 0 then 'first' when len(t.steps) - 1 then 'last' else 'middle' end as place,
               ntile(3) over (order by reward, trajectory_id, step_index) as third,
               md5(concat($seed, ' ', trajectory_id, ' ', step_index)) as lot
        from labels.step_rewards join alignment.trajectories t using (trajectory_id)
        where reward_type = $base
    ),
    dealt as (
        select *, row_number() over (partition by task, place, third order by lot) - 1 as dealt,
               md5_number_lower(concat($seed, ' ', task, ' ', place, ' ', third)) / 18446744073709551616.0 as start,
               count(*) over (partition by task, place, third) as held
        from steps
    )
    select trajectory_id, step_index from dealt order by (dealt + start) / held, lot limit $most
"""

JUDGED_TRAJECTORIES = """
    select trajectory_id, row_number, question_id, question, steps, shepherd_labels
    from alignment.trajectories where trajectory_id in (select unnest($ids))
"""

JUDGED_REWARDS = """
    select trajectory_id, step_index, reward_type, reward
    from labels.step_rewards where trajectory_id in (select unnest($ids))
"""

WHOLE_LABELS = """
    select trajectory_id, list(soft_label order by step_index) as rewards
    from dataset.soft_labels where reward_type = $base group by trajectory_id order by trajectory_id
"""
