"""GGUF files as models: which file a name means, one conversion for all, and what is wrong when it cannot be made."""

import hashlib
from functools import partial
from pathlib import Path

import huggingface_hub
import numpy as np
import polars as pl
import pytest

from cpmi_dagster.errors import ModelError
from cpmi_dagster.models.gguf import convert_gguf, fetch_gguf, gguf_file
from cpmi_dagster.models.language_models import load_language_model, model_identity, model_on_disk
from cpmi_dagster.scoring.trajectories import score_trajectories

pytestmark = pytest.mark.slow

WIDTH, HEADS, INNER = 32, 4, 48
ROW = {"id": "a", "question": "2 + 3?", "steps": ["2 + 3 = 5", "So 5."], "gold_answer": "5", "negative_answers": ["6"]}


def write_tiny(path: Path) -> Path:
    """A Llama of one layer whose vocabulary is the bytes and one pair of them, its weights at random."""
    import gguf
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    tokens = [*bytes_to_unicode().values(), "ĊĊ", "<|end|>"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges(["Ċ Ċ"])
    writer.add_eos_token_id(len(tokens) - 1)
    shapes = {"token_embd": (len(tokens), WIDTH), "output_norm": (WIDTH,)}
    shapes |= {f"blk.0.{name}_norm": (WIDTH,) for name in ("attn", "ffn")}
    shapes |= {f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (INNER, WIDTH), "blk.0.ffn_up": (INNER, WIDTH), "blk.0.ffn_down": (WIDTH, INNER)}
    rng = np.random.default_rng(0)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(scale=0.2, size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """A cache of converted models of the test's own."""
    own = partial(huggingface_hub.cached_assets_path, assets_dir=tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "cached_assets_path", own)
    return tmp_path / "cache"


def test_a_file_of_the_hub_is_the_one_in_its_cache(tmp_path, monkeypatch):
    name = "org/Tiny-GGUF:deep/tiny.gguf"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.file_download.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=f"`{name}` is not in the hub's cache, and cannot be fetched"):
        fetch_gguf(name)
    repository = tmp_path / "models--org--Tiny-GGUF"
    file = repository / "snapshots" / "c0ffee" / "deep" / "tiny.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"weights")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c0ffee")
    digest = hashlib.sha256(b"weights").hexdigest()
    fetch_gguf(name, digest)
    assert gguf_file(name) == model_on_disk(name) == file
    assert model_identity(name) == f"{name}@{digest[:12]}"
    with pytest.raises(ModelError, match=f"has the sha256 {digest}, not {'0' * 64}; get the file again"):
        fetch_gguf(name, "0" * 64)


def test_a_file_that_cannot_be_used_says_why_in_one_sentence_and_is_not_kept(tmp_path, cache):
    file = write_tiny(tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(ModelError, match=r"^the model file [^\n]*(get another file|download it again)[^\n]*$"):
        load_language_model(str(file), device="cpu")
    assert not list(cache.rglob("*.safetensors"))


def test_a_file_is_converted_once_without_traces_of_an_interruption_and_scores_as_its_weights(
    tmp_path, cache, monkeypatch
):
    file = write_tiny(tmp_path / "tiny.gguf")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("cpmi_dagster.models.gguf.check_loaded", interrupt)
        convert_gguf(file)
    assert not [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
    loaded = load_language_model(str(file), device="cpu")
    monkeypatch.setattr("cpmi_dagster.models.gguf._convert", interrupt)
    assert (loaded.identity, loaded.context_length) == (model_identity(str(file)), 256)
    tensors = {tensor.name: tensor.data for tensor in pytest.importorskip("gguf").GGUFReader(str(file)).tensors}
    assert loaded.tokenizer.tokenize("\n\n42") == ["ĊĊ", "4", "2"]
    embeddings = loaded.model.get_input_embeddings().weight.detach().numpy()
    assert np.array_equal(embeddings, tensors["token_embd.weight"].reshape(embeddings.shape))
    tree, reference = (
        score_trajectories(pl.DataFrame([ROW]), str(file), scorer=scorer, device="cpu")["cpmi"]
        for scorer in ("tree", "reference")
    )
    assert tree.len() == 2 * 3 * 4
    assert (tree - reference).abs().max() < 1e-5
